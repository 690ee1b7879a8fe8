-- purpose: the stream of a key.
-- inputs: 1 queue, 2 gate, 3 needs, 4 task, 5 suspect
-- returns: its id, or nothing
-- invariant: reads only.
SELECT id FROM stream
WHERE queue = ?1 AND gate = ?2 AND needs = ?3 AND task = ?4 AND suspect = ?5
