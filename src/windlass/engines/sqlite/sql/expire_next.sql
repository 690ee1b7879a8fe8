-- purpose: waiting jobs past their time.
-- inputs: 1 now, 2 limit
-- returns: the columns of rows.Row
-- invariant: reads only.
SELECT
  seq, id, state, queue, task, stream, rank, fence,
  settled_fence, worker, ticket, attempt, crashes, losses, suspect, cancel_asked,
  priority, created_us, due_us, claimed_us, started_us, ended_us, expires_us, purge_us,
  keep_us, reason, hold, lane, lane_limit, place, slot, ukey,
  ukey_clears, ukey_until_us, gate, needs, parked, flow, open_edges, heir,
  heir_of, home, noted, failure, fingerprint, result_until_us
FROM job WHERE expires_us IS NOT NULL AND ended_us IS NULL AND expires_us <= ?1 AND state != 'running'
ORDER BY expires_us, seq LIMIT ?2
