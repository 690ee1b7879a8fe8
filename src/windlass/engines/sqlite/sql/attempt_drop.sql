-- purpose: removes a job's rows from attempt.
-- inputs: 1 job
-- returns: nothing
-- invariant: the job goes in the same transaction.
DELETE FROM attempt WHERE job = ?1
