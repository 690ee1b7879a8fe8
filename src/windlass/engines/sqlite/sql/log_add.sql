-- purpose: appends a line.
-- inputs: 1 job, 2 number, 3 attempt, 4 at_us, 5 text, 6 stream
-- returns: nothing
-- invariant: a line is never changed.
INSERT INTO log (job, number, attempt, at_us, text, stream) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
