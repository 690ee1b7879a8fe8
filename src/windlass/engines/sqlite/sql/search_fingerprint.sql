-- purpose: ended jobs of an error, newest end first.
-- inputs: 1 fingerprint, 2 and 3 the position to go on from
-- returns: two columns of position, then seq, state, queue, task, worker, lane, flow, fingerprint, time, extra
-- invariant: reads only; goes through one index in its order, so the cursor of a page leads to the next.
SELECT ended_us, seq, seq, state, queue, task, worker, lane, flow, fingerprint, coalesce(ended_us, created_us), extra
FROM job WHERE fingerprint = ?1 AND (ended_us, seq) < (?2, ?3)
ORDER BY ended_us DESC, seq DESC
