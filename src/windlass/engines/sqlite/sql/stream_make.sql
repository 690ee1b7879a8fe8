-- purpose: makes the stream of a key.
-- inputs: 1 queue, 2 gate, 3 needs, 4 task, 5 suspect
-- returns: its id
-- invariant: one stream per key.
INSERT INTO stream (queue, gate, needs, task, suspect) VALUES (?1, ?2, ?3, ?4, ?5) RETURNING id
