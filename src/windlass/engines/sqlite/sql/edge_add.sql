-- purpose: draws an edge from a parent that is still open.
-- inputs: 1 parent, 2 child seq, 3 kind
-- returns: nothing
-- invariant: an edge is there once.
INSERT OR IGNORE INTO edge (parent, child, kind) VALUES (?1, ?2, ?3)
