-- purpose: edges of an ended parent.
-- inputs: 1 parent, 2 limit
-- returns: child, kind
-- invariant: reads only.
SELECT child, kind FROM edge WHERE parent = ?1 ORDER BY child, kind LIMIT ?2
