-- purpose: the ends of plain successes, in one statement; settle.py repeats the values for each of them.
-- inputs: per job: id, fence, started_us, now, result, result_until_us, keep_us; a row of NULLs is nobody's
-- returns: id, queue, task, stream, lane, flow, heir_of of those that it ended
-- invariant: only the claim with the current fence writes; a first-try success leaves no attempt behind.
WITH ends (id, fence, started_us, ended_us, result, result_until_us, keep_us) AS (VALUES (?, ?, ?, ?, ?, ?, ?))
UPDATE job SET state = 'succeeded', settled_fence = job.fence, started_us = coalesce(ends.started_us, job.started_us),
  ended_us = ends.ended_us, result = ends.result, result_until_us = ends.result_until_us, keep_us = ends.keep_us,
  suspect = 0, slot = 0, reason = NULL, failure = NULL, fingerprint = NULL,
  purge_us = iif(flow IS NULL, max(ends.ended_us + ends.keep_us, coalesce(ukey_until_us, 0)), NULL),
  ukey = iif(ukey_clears = 'time', ukey, NULL)
-- The plus keeps SQLite from looking through all running jobs for those that end.
FROM ends WHERE job.id = ends.id AND job.fence = ends.fence AND +state = 'running' AND attempt = 1
RETURNING id, queue, task, stream, lane, flow, heir_of
