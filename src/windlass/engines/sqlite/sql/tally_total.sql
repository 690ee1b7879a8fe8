-- purpose: how many jobs are in a state.
-- inputs: 1 state
-- returns: n
-- invariant: reads only.
SELECT coalesce(sum(n), 0) FROM tally WHERE state = ?1
