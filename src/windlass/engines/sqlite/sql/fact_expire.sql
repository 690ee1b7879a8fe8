-- purpose: removes facts past their time.
-- inputs: 1 now, 2 limit
-- returns: nothing
-- invariant: facts without an end stay.
DELETE FROM fact WHERE key IN (SELECT key FROM fact WHERE expires_us IS NOT NULL AND expires_us <= ?1 LIMIT ?2)
