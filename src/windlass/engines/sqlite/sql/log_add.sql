-- purpose: appends a line.
-- inputs: 1 job, 2 number, 3 attempt, 4 at_us, 5 text
-- returns: nothing
-- invariant: a line is never changed.
INSERT INTO log (job, number, attempt, at_us, text) VALUES (?1, ?2, ?3, ?4, ?5)
