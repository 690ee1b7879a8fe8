-- purpose: keeps a step's data under its key.
-- inputs: 1 job, 2 key, 3 data
-- returns: nothing
-- invariant: one per key.
INSERT OR REPLACE INTO step (job, key, data) VALUES (?1, ?2, ?3)
