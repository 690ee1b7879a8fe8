-- purpose: the queues that have jobs in a state.
-- inputs: 1 state
-- returns: queue
-- invariant: reads only.
SELECT DISTINCT queue FROM tally WHERE state = ?1 AND n > 0
