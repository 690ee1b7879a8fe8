-- purpose: the oldest chore.
-- inputs: none
-- returns: id, kind, key, at, note
-- invariant: reads only.
SELECT id, kind, key, at, note FROM chore WHERE kind != 'damaged' ORDER BY id LIMIT 1
