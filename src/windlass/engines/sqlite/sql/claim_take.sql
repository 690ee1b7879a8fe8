-- purpose: takes a ready job for a worker.
-- inputs: 1 seq, 2 worker, 3 ticket, 4 now
-- returns: id, fence, task, queue, payload, options, attempt, crashes, losses, suspect, priority, due_us, lane, flow, extra, ukey_clears
-- invariant: the fence grows with every claim, even if the clock went back.
UPDATE job SET state = 'running', worker = ?2, ticket = ?3, claimed_us = ?4, started_us = NULL,
  fence = max(fence + 1, ?4)
WHERE seq = ?1 AND state = 'ready'
RETURNING id, fence, task, queue, payload, options, attempt, crashes, losses, suspect, priority, due_us, lane, flow,
  extra, ukey_clears
