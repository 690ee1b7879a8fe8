-- purpose: a job's attempts.
-- inputs: 1 job
-- returns: data
-- invariant: reads only.
SELECT data FROM attempt WHERE job = ?1 ORDER BY number
