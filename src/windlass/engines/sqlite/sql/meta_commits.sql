-- purpose: how many commits the store has seen.
-- inputs: none
-- returns: commits
-- invariant: reads only.
SELECT commits FROM meta
