-- purpose: a fact.
-- inputs: 1 key, 2 now
-- returns: value, version, expires_us
-- invariant: reads only; an expired fact is none.
SELECT value, version, expires_us FROM fact WHERE key = ?1 AND (expires_us IS NULL OR expires_us > ?2)
