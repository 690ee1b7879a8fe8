-- purpose: whether jobs wait on any of some queues, ready or due soon.
-- inputs: 1 JSON list of queues, or NULL for any, 2 the instant up to which a scheduled job counts
-- returns: 1, or nothing
-- invariant: reads only.
SELECT 1 FROM (
  SELECT queue FROM stream_now WHERE ready > 0
  UNION ALL
  SELECT queue FROM job WHERE state = 'scheduled' AND due_us <= ?2
)
WHERE ?1 IS NULL OR queue IN (SELECT value FROM json_each(?1)) LIMIT 1
