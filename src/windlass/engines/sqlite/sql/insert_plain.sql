-- purpose: puts plain jobs straight into their streams; insert.py repeats the values for each of them.
-- inputs: per job: seq, id, queue, task, stream, rank, priority, now, now, options, payload
-- returns: nothing; no change where the id is there
-- invariant: a job sent twice is one job.
INSERT INTO job (seq, id, state, queue, task, stream, rank, priority, created_us, due_us, options, payload)
VALUES (?, ?, 'ready', ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING
