-- purpose: adds to a flow's counters, making it where it is missing.
-- inputs: 1 id, 2 live, 3 nodes
-- returns: started, live, nodes afterwards
-- invariant: live is the number of its jobs that have not ended, nodes of all of them.
INSERT INTO flow (id, live, nodes) VALUES (?1, ?2, ?3)
ON CONFLICT (id) DO UPDATE SET live = live + excluded.live, nodes = nodes + excluded.nodes
RETURNING started, live, nodes
