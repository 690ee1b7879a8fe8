-- purpose: writes down follow-up work.
-- inputs: 1 kind, 2 key, 3 note
-- returns: nothing
-- invariant: a chore stays until its last step.
INSERT INTO chore (kind, key, note) VALUES (?1, ?2, ?3)
