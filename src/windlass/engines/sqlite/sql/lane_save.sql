-- purpose: writes a lane.
-- inputs: 1 name, 2 slots, 3 busy, 4 last_rank
-- returns: nothing
-- invariant: busy is the number of jobs that hold a place.
INSERT INTO lane (name, slots, busy, last_rank) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (name) DO UPDATE SET slots = excluded.slots, busy = excluded.busy, last_rank = excluded.last_rank
