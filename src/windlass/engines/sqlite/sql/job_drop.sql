-- purpose: removes a job.
-- inputs: 1 seq
-- returns: nothing
-- invariant: it has ended, or a person deletes it.
DELETE FROM job WHERE seq = ?1
