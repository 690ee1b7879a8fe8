-- purpose: removes a gate's bucket.
-- inputs: 1 gate
-- returns: nothing
-- invariant: the gate has no rule any more.
DELETE FROM bucket WHERE gate = ?1
