-- purpose: the ready jobs of a stream, smallest rank first, read only as far as needed, as claim shows them.
-- inputs: 1 stream, 2 now
-- returns: as claim_held, with the fence that claim_take gives now; then rank, seq, expires_us, ukey_clears
-- invariant: reads only.
SELECT id, max(fence + 1, ?2), task, queue, payload, options, attempt, crashes, losses, suspect, priority, due_us, lane,
  flow, extra, rank, seq, expires_us, ukey_clears
FROM job WHERE state = 'ready' AND stream = ?1 ORDER BY rank, seq
