-- purpose: the start of a suspect, written before it runs.
-- inputs: 1 seq, 2 now
-- returns: nothing
-- invariant: the caller holds the current fence.
UPDATE job SET started_us = ?2 WHERE seq = ?1
