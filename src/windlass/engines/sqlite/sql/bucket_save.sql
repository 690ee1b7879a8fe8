-- purpose: spends from a rated gate's bucket.
-- inputs: 1 gate, 2 tat_us
-- returns: nothing
-- invariant: spent inside the claim that takes the jobs.
INSERT OR REPLACE INTO bucket (gate, tat_us) VALUES (?1, ?2)
