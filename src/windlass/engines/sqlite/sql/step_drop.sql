-- purpose: removes a job's rows from step.
-- inputs: 1 job
-- returns: nothing
-- invariant: the job goes in the same transaction.
DELETE FROM step WHERE job = ?1
