-- purpose: writes a job's result.
-- inputs: 1 seq, 2 result
-- returns: nothing
-- invariant: the caller holds the current fence.
UPDATE job SET result = ?2 WHERE seq = ?1
