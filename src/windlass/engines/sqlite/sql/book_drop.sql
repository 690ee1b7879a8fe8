-- purpose: removes counters of nothing.
-- inputs: none
-- returns: nothing
-- invariant: counters of jobs that are there stay.
DELETE FROM book WHERE kind > 0 AND a = 0 AND b = 0
