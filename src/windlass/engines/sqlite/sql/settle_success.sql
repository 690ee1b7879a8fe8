-- purpose: the end of a plain success, in one statement.
-- inputs: 1 id, 2 fence, 3 now, 4 started_us, 5 result, 6 result_until_us, 7 keep_us
-- returns: id, fence, queue, task, stream, lane, flow, heir_of
-- invariant: only the claim with the current fence writes; a first-try success leaves no attempt behind.
UPDATE job SET state = 'succeeded', settled_fence = fence, started_us = coalesce(?4, started_us), ended_us = ?3,
  result = ?5, result_until_us = ?6, keep_us = ?7, suspect = 0, slot = 0, reason = NULL, failure = NULL, fingerprint = NULL,
  purge_us = iif(flow IS NULL, max(?3 + ?7, coalesce(ukey_until_us, 0)), NULL),
  ukey = iif(ukey_clears = 'time', ukey, NULL)
WHERE id = ?1 AND fence = ?2 AND state = 'running' AND attempt = 1
RETURNING id, fence, queue, task, stream, lane, flow, heir_of
