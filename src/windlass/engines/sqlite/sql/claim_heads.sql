-- purpose: the ready jobs of a stream, smallest rank first, read only as far as needed.
-- inputs: 1 stream
-- returns: rank, seq, task, expires_us
-- invariant: reads only.
SELECT rank, seq, task, expires_us FROM job WHERE state = 'ready' AND stream = ?1 ORDER BY rank, seq
