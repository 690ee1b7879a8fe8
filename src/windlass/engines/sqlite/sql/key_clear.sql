-- purpose: takes a job's unique key away.
-- inputs: 1 seq
-- returns: nothing
-- invariant: a cleared key is never retaken.
UPDATE job SET ukey = NULL, ukey_until_us = NULL WHERE seq = ?1
