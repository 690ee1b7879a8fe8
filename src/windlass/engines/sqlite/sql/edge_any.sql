-- purpose: whether a job has dependents.
-- inputs: 1 parent
-- returns: 1, or nothing
-- invariant: reads only.
SELECT 1 FROM edge WHERE parent = ?1 LIMIT 1
