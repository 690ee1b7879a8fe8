-- purpose: removes streams that hold nothing.
-- inputs: none
-- returns: nothing
-- invariant: a stream with a ready or running job stays.
DELETE FROM stream WHERE id NOT IN (SELECT stream FROM book WHERE kind = 1 AND (a != 0 OR b != 0))
