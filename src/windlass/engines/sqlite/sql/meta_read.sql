-- purpose: the store's own counters, read first in every write.
-- inputs: none
-- returns: schema, seq, rank_order, commits
-- invariant: reads only.
SELECT schema, seq, rank_order, commits FROM meta
