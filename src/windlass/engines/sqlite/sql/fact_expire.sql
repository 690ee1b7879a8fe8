-- purpose: removes facts past their time, those that ended first.
-- inputs: 1 now, 2 limit
-- returns: key
-- invariant: facts without an end stay; the caller drops what belongs to the key.
DELETE FROM fact WHERE key IN (
  SELECT key FROM fact INDEXED BY fact_expires
  WHERE expires_us IS NOT NULL AND expires_us <= ?1 ORDER BY expires_us LIMIT ?2
) RETURNING key
