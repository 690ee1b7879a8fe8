-- purpose: ended jobs past their time, but for the successes that purge_oldest finds.
-- inputs: 1 now, 2 limit
-- returns: the columns of rows.Row
-- invariant: a record stays while its unique key is set: purge_us is not before the key's end.
SELECT
  seq, id, state, queue, task, stream, rank, fence,
  settled_fence, worker, ticket, attempt, crashes, losses, suspect, cancel_asked,
  priority, created_us, due_us, claimed_us, started_us, ended_us, expires_us, purge_us,
  keep_us, reason, hold, lane, lane_limit, place, slot, ukey,
  ukey_clears, ukey_until_us, gate, needs, parked, flow, open_edges, heir,
  heir_of, home, noted, failure, fingerprint, result_until_us
FROM job INDEXED BY job_purge
WHERE purge_us IS NOT NULL AND (state != 'succeeded' OR ukey IS NOT NULL) AND purge_us <= ?1
ORDER BY purge_us, seq LIMIT ?2
