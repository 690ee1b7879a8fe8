-- purpose: the oldest successes: those past their time, or, without an end, for when there are too many.
-- inputs: 1 the time they may go at the latest, 2 limit
-- returns: the columns of rows.Row
-- invariant: a record whose unique key is set stays.
SELECT
  seq, id, state, queue, task, stream, rank, fence,
  settled_fence, worker, ticket, attempt, crashes, losses, suspect, cancel_asked,
  priority, created_us, due_us, claimed_us, started_us, ended_us, expires_us, purge_us,
  keep_us, reason, hold, lane, lane_limit, place, slot, ukey,
  ukey_clears, ukey_until_us, gate, needs, parked, flow, open_edges, heir,
  heir_of, home, noted, failure, fingerprint, result_until_us
FROM job INDEXED BY job_purge_succeeded
WHERE purge_us IS NOT NULL AND state = 'succeeded' AND ukey IS NULL AND purge_us <= ?1
ORDER BY purge_us, seq LIMIT ?2
