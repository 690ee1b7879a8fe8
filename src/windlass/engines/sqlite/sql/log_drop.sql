-- purpose: removes a job's rows from log.
-- inputs: 1 job
-- returns: nothing
-- invariant: the job goes in the same transaction.
DELETE FROM log WHERE job = ?1
