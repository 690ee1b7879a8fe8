-- purpose: removes counts of nothing.
-- inputs: none
-- returns: nothing
-- invariant: counts of jobs that are there stay.
DELETE FROM tally WHERE n = 0
