-- purpose: starts a flow.
-- inputs: 1 id
-- returns: 1 where it had not started before
-- invariant: a flow starts once.
INSERT INTO flow (id, started) VALUES (?1, 1)
ON CONFLICT (id) DO UPDATE SET started = 1 WHERE started = 0
RETURNING 1
