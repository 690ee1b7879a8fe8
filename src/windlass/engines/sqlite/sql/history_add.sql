-- purpose: adds what a worker counted.
-- inputs: 1 span, 2 start_us, 3 queue, 4 task, 5 name, 6 n
-- returns: nothing
-- invariant: a beat's deltas are added once.
INSERT INTO history (span, start_us, queue, task, name, n) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT DO UPDATE SET n = n + excluded.n
