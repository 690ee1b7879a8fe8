-- purpose: a job's steps.
-- inputs: 1 job
-- returns: key, data
-- invariant: reads only.
SELECT key, data FROM step WHERE job = ?1 ORDER BY key
