-- purpose: keeps the last progress.
-- inputs: 1 job, 2 at_us, 3 data
-- returns: nothing
-- invariant: one per job.
INSERT OR REPLACE INTO progress (job, at_us, data) VALUES (?1, ?2, ?3)
