-- purpose: adds to the count of a task's jobs in a state on a queue.
-- inputs: 1 queue, 2 task, 3 state, 4 n
-- returns: nothing
-- invariant: n is the number of such jobs.
INSERT INTO tally (queue, task, state, n) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT DO UPDATE SET n = n + excluded.n
