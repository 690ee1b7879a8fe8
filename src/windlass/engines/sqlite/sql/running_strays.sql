-- purpose: running jobs whose worker has no card: nobody will ever settle them.
-- inputs: 1 limit
-- returns: the columns of rows.Row
-- invariant: reads only.
SELECT
  seq, id, state, queue, task, stream, rank, fence,
  settled_fence, worker, ticket, attempt, crashes, losses, suspect, cancel_asked,
  priority, created_us, due_us, claimed_us, started_us, ended_us, expires_us, purge_us,
  keep_us, reason, hold, lane, lane_limit, place, slot, ukey,
  ukey_clears, ukey_until_us, gate, needs, parked, flow, open_edges, heir,
  heir_of, home, noted, failure, fingerprint, result_until_us
FROM job WHERE state = 'running' AND worker NOT IN (SELECT worker FROM card) LIMIT ?1
