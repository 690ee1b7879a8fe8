-- purpose: the next version for a fact.
-- inputs: 1 now
-- returns: the version
-- invariant: one count for all facts, so a key that was deleted and written again never shows an old version.
UPDATE meta SET facts = max(facts + 1, ?1) RETURNING facts
