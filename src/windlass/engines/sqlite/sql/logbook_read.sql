-- purpose: how much of a job's log is kept.
-- inputs: 1 job
-- returns: number, head_bytes, tail_bytes, tail_from
-- invariant: reads only.
SELECT number, head_bytes, tail_bytes, tail_from FROM logbook WHERE job = ?1
