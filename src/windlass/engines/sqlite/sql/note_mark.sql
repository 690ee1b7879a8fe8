-- purpose: remembers that a job has notes, so that purging looks for them.
-- inputs: 1 seq
-- returns: nothing
-- invariant: set before the first note is written.
UPDATE job SET noted = 1 WHERE seq = ?1 AND noted = 0
