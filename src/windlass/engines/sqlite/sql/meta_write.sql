-- purpose: the store's own counters, written last in every write.
-- inputs: 1 seq, 2 rank_order, 3 commits
-- returns: nothing
-- invariant: all three only grow.
UPDATE book SET b = ?1, c = ?2, d = ?3 WHERE kind = 0
