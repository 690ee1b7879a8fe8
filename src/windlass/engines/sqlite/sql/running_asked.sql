-- purpose: a worker's jobs that somebody wants cancelled.
-- inputs: 1 worker, 2 limit
-- returns: id
-- invariant: reads only.
SELECT id FROM job WHERE state = 'running' AND worker = ?1 AND cancel_asked = 1 ORDER BY seq LIMIT ?2
