-- purpose: removes a fact.
-- inputs: 1 key
-- returns: nothing
-- invariant: the caller has compared versions in this transaction.
DELETE FROM fact WHERE key = ?1
