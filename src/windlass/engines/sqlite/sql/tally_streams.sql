-- purpose: the streams that have ready jobs, of a queue or of all.
-- inputs: 1 queue, or NULL
-- returns: id
-- invariant: reads only.
SELECT id FROM stream_now WHERE ready > 0 AND (?1 IS NULL OR queue = ?1)
