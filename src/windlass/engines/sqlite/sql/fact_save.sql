-- purpose: writes a fact.
-- inputs: 1 key, 2 value, 3 version, 4 expires_us
-- returns: nothing
-- invariant: the caller has compared versions in this transaction.
INSERT OR REPLACE INTO fact (key, value, version, expires_us) VALUES (?1, ?2, ?3, ?4)
