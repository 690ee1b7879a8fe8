-- purpose: lets the dependents of a refused duplicate wait for the job that is there instead.
-- inputs: 1 the refused id, 2 the id that is there
-- returns: nothing
-- invariant: a child waits for a parent once: an edge it has already is not drawn again.
UPDATE OR IGNORE edge SET parent = ?2 WHERE parent = ?1
