-- purpose: a chore that cannot be read is kept for people and done by nobody.
-- inputs: 1 id
-- returns: nothing
-- invariant: the other chores go on.
UPDATE chore SET kind = 'damaged' WHERE id = ?1
