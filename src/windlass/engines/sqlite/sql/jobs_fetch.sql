-- purpose: a whole job by its id, with its larger columns.
-- inputs: 1 id
-- returns: the columns of rows.Row, then extra, options, payload, result
-- invariant: reads only.
SELECT
  seq, id, state, queue, task, stream, rank, fence,
  settled_fence, worker, ticket, attempt, crashes, losses, suspect, cancel_asked,
  priority, created_us, due_us, claimed_us, started_us, ended_us, expires_us, purge_us,
  keep_us, reason, hold, lane, lane_limit, place, slot, ukey,
  ukey_clears, ukey_until_us, gate, needs, parked, flow, open_edges, heir,
  heir_of, home, noted, failure, fingerprint, result_until_us,
  extra, options, payload, result
FROM job WHERE id = ?1
