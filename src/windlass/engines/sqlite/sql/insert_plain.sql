-- purpose: puts a plain job straight into its stream.
-- inputs: 1 seq, 2 id, 3 queue, 4 task, 5 stream, 6 rank, 7 priority, 8 now, 9 options, 10 payload
-- returns: nothing; no change where the id is there
-- invariant: a job sent twice is one job.
INSERT INTO job (seq, id, state, queue, task, stream, rank, priority, created_us, due_us, options, payload)
VALUES (?1, ?2, 'ready', ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9, ?10)
ON CONFLICT (id) DO NOTHING
