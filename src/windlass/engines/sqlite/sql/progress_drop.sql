-- purpose: removes a job's rows from progress.
-- inputs: 1 job
-- returns: nothing
-- invariant: the job goes in the same transaction.
DELETE FROM progress WHERE job = ?1
