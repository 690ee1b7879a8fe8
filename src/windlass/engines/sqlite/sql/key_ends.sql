-- purpose: jobs whose period of uniqueness is over.
-- inputs: 1 now, 2 limit
-- returns: seq
-- invariant: reads only.
SELECT seq FROM job WHERE ukey_until_us IS NOT NULL AND ukey_until_us <= ?1 ORDER BY ukey_until_us, seq LIMIT ?2
