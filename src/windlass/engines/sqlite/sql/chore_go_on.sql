-- purpose: notes how far a chore has come.
-- inputs: 1 id, 2 at
-- returns: nothing
-- invariant: at only grows.
UPDATE chore SET at = ?2 WHERE id = ?1
