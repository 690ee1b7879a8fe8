-- purpose: adds to a stream's counters.
-- inputs: 1 ready, 2 running, 3 stream id
-- returns: nothing
-- invariant: ready and running are the numbers of its jobs in those states.
UPDATE stream SET ready = ready + ?1, running = running + ?2 WHERE id = ?3
