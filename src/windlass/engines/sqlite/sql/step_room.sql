-- purpose: whether a job may keep this step: it has it already, or has room for one more.
-- inputs: 1 job, 2 key, 3 how many steps a job may keep
-- returns: 1, or nothing
-- invariant: reads only.
SELECT 1 WHERE EXISTS (SELECT 1 FROM step WHERE job = ?1 AND key = ?2) OR (SELECT count(*) FROM step WHERE job = ?1) < ?3
