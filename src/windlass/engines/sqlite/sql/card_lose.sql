-- purpose: marks a worker as dead, before its jobs are taken: it can never renew again.
-- inputs: 1 worker
-- returns: nothing
-- invariant: lost is for ever.
UPDATE card SET lost = 1 WHERE worker = ?1
