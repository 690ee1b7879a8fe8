-- purpose: a job's log onward from a line.
-- inputs: 1 job, 2 after number
-- returns: number, attempt, at_us, text, stream
-- invariant: reads only.
SELECT number, attempt, at_us, text, stream FROM log WHERE job = ?1 AND number > ?2 ORDER BY number
