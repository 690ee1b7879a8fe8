-- purpose: keeps a finished attempt.
-- inputs: 1 job, 2 data
-- returns: nothing
-- invariant: numbers of a job's attempts grow by one.
INSERT INTO attempt (job, number, data)
VALUES (?1, coalesce((SELECT max(number) FROM attempt WHERE job = ?1), 0) + 1, ?2)
