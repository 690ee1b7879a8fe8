-- purpose: removes a job's rows from logbook.
-- inputs: 1 job
-- returns: nothing
-- invariant: the job goes in the same transaction.
DELETE FROM logbook WHERE job = ?1
