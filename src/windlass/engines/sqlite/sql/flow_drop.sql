-- purpose: removes a flow without jobs.
-- inputs: 1 id
-- returns: nothing
-- invariant: its last job is gone.
DELETE FROM flow WHERE id = ?1
