-- purpose: drops the oldest line of the tail.
-- inputs: 1 job, 2 tail_from
-- returns: its size
-- invariant: the head stays.
DELETE FROM log WHERE job = ?1 AND number = (SELECT min(number) FROM log WHERE job = ?1 AND number >= ?2)
RETURNING number, length(text)
