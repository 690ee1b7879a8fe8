-- purpose: a lane.
-- inputs: 1 name
-- returns: slots, busy, last_rank
-- invariant: reads only.
SELECT slots, busy, last_rank FROM lane WHERE name = ?1
