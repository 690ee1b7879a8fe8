-- purpose: adds to counters; tx.py repeats the values for each of them.
-- inputs: per counter: kind, stream, queue, task, state, what to add to a, b, c and d
-- returns: nothing
-- invariant: a stream's a and b are the numbers of its ready and running jobs, a tally's a that of its jobs; the
--            store's own b, c and d (seq, rank_order, commits) only grow.
INSERT INTO book (kind, stream, queue, task, state, a, b, c, d)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET a = a + excluded.a, b = b + excluded.b, c = c + excluded.c, d = d + excluded.d
