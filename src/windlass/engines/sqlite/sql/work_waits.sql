-- purpose: whether ready jobs wait on any of some queues.
-- inputs: 1 JSON list of queues, or NULL for any
-- returns: 1, or nothing
-- invariant: reads only.
SELECT 1 FROM stream_now WHERE ready > 0 AND (?1 IS NULL OR queue IN (SELECT value FROM json_each(?1))) LIMIT 1
