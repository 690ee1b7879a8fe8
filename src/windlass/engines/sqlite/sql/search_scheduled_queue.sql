-- purpose: scheduled jobs of a queue, soonest first.
-- inputs: 1 queue, 2 and 3 the position to go on from
-- returns: two columns of position, then seq, state, queue, task, worker, lane, flow, fingerprint, time, extra
-- invariant: reads only; goes through one index in its order, so the cursor of a page leads to the next.
SELECT due_us, seq, seq, state, queue, task, worker, lane, flow, fingerprint, coalesce(ended_us, created_us), extra
FROM job WHERE state = 'scheduled' AND queue = ?1 AND (due_us, seq) > (?2, ?3)
ORDER BY due_us, seq
