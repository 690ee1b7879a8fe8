-- purpose: the store's own counters, written last in every write.
-- inputs: 1 seq, 2 rank_order, 3 commits
-- returns: nothing
-- invariant: all three only grow.
UPDATE meta SET seq = ?1, rank_order = ?2, commits = ?3
