-- purpose: the counts.
-- inputs: none
-- returns: queue, task, state, n
-- invariant: reads only.
SELECT queue, task, state, n FROM tally WHERE n != 0
