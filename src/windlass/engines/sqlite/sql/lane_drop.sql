-- purpose: removes an empty lane.
-- inputs: 1 name
-- returns: nothing
-- invariant: nobody holds a place in it or waits for one.
DELETE FROM lane WHERE name = ?1
