-- purpose: ready jobs of a stream, next to run first.
-- inputs: 1 stream id, 2 and 3 the position to go on from
-- returns: two columns of position, then seq, state, queue, task, worker, lane, flow, fingerprint, time, extra
-- invariant: reads only; goes through one index in its order, so the cursor of a page leads to the next.
SELECT rank, seq, seq, state, queue, task, worker, lane, flow, fingerprint, coalesce(ended_us, created_us), extra
FROM job WHERE state = 'ready' AND stream = ?1 AND (rank, seq) > (?2, ?3)
ORDER BY rank, seq
