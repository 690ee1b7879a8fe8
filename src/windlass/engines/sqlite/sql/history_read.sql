-- purpose: history of a span.
-- inputs: 1 span, 2 since start_us
-- returns: start_us, queue, task, name, n
-- invariant: reads only.
SELECT start_us, queue, task, name, n FROM history WHERE span = ?1 AND start_us >= ?2
ORDER BY start_us, queue, task, name
