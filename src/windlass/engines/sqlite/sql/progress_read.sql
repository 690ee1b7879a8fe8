-- purpose: the last progress.
-- inputs: 1 job
-- returns: at_us, data
-- invariant: reads only.
SELECT at_us, data FROM progress WHERE job = ?1
