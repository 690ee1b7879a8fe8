-- purpose: closes an edge.
-- inputs: 1 parent, 2 child, 3 kind
-- returns: nothing
-- invariant: closing twice changes nothing.
DELETE FROM edge WHERE parent = ?1 AND child = ?2 AND kind = ?3
