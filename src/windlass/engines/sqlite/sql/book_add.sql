-- purpose: adds to counters; tx.py repeats the values for each of them.
-- inputs: per counter: kind, stream, queue, task, state, what to add to a, what to add to b
-- returns: nothing
-- invariant: a stream's a and b are the numbers of its ready and running jobs, a tally's a that of its jobs.
INSERT INTO book (kind, stream, queue, task, state, a, b)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET a = a + excluded.a, b = b + excluded.b
