-- purpose: the next version for a fact.
-- inputs: 1 now
-- returns: the version
-- invariant: one count for all facts, so a key that was deleted and written again never shows an old version.
UPDATE book SET e = max(e + 1, ?1) WHERE kind = 0 RETURNING e
