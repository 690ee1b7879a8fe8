-- purpose: jobs of an error that have not ended, newest first; they stand before all ended ones.
-- inputs: 1 fingerprint, 2 and 3 the position to go on from
-- returns: two columns of position, then seq, state, queue, task, worker, lane, flow, fingerprint, time, extra
-- invariant: reads only; goes through one index in its order, so the cursor of a page leads to the next.
SELECT 9223372036854775807, seq, seq, state, queue, task, worker, lane, flow, fingerprint, created_us, extra
FROM job WHERE fingerprint = ?1 AND ended_us IS NULL AND ?2 = 9223372036854775807 AND seq < ?3
ORDER BY seq DESC
