-- purpose: jobs of a lane, newest first.
-- inputs: 1 lane, 2 and 3 the position to go on from
-- returns: two columns of position, then seq, state, queue, task, worker, lane, flow, fingerprint, time, extra
-- invariant: reads only; goes through one index in its order, so the cursor of a page leads to the next.
SELECT seq, 0, seq, state, queue, task, worker, lane, flow, fingerprint, coalesce(ended_us, created_us), extra
FROM job WHERE lane = ?1 AND seq < ?2 AND ?3 IS NOT NULL
ORDER BY seq DESC
