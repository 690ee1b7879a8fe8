-- purpose: the job that holds a unique key.
-- inputs: 1 key
-- returns: seq, id, ukey_until_us
-- invariant: reads only; at most one, by the unique index.
SELECT seq, id, ukey_until_us FROM job WHERE ukey = ?1
