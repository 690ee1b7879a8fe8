-- purpose: a chore is done.
-- inputs: 1 id
-- returns: nothing
-- invariant: doing it again would change nothing.
DELETE FROM chore WHERE id = ?1
