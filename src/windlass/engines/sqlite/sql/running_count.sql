-- purpose: how many jobs a worker holds.
-- inputs: 1 worker
-- returns: n
-- invariant: reads only.
SELECT count(*) FROM job WHERE state = 'running' AND worker = ?1
