-- purpose: notes how much of a job's log is kept.
-- inputs: 1 job, 2 number, 3 head_bytes, 4 tail_bytes, 5 tail_from
-- returns: nothing
-- invariant: numbers only grow.
INSERT OR REPLACE INTO logbook (job, number, head_bytes, tail_bytes, tail_from) VALUES (?1, ?2, ?3, ?4, ?5)
