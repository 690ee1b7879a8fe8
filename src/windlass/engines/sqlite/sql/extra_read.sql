-- purpose: the rare fields of a request.
-- inputs: 1 id
-- returns: extra
-- invariant: reads only.
SELECT extra FROM job WHERE id = ?1
