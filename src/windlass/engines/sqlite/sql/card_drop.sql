-- purpose: removes a card.
-- inputs: 1 worker
-- returns: nothing
-- invariant: the worker holds nothing.
DELETE FROM card WHERE worker = ?1
