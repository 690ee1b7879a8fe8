-- purpose: a flow.
-- inputs: 1 id
-- returns: started, live, nodes
-- invariant: reads only.
SELECT started, live, nodes FROM flow WHERE id = ?1
