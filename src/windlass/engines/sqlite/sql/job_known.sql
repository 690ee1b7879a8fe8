-- purpose: whether an id is there.
-- inputs: 1 id
-- returns: seq, or nothing
-- invariant: reads only.
SELECT seq FROM job WHERE id = ?1
