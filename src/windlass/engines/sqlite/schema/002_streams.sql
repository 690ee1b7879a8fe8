-- purpose: a line of a job's log says where it was said.
-- invariant: lines that are there already were said by tasks to their jobs.
ALTER TABLE log ADD COLUMN stream TEXT NOT NULL DEFAULT '';
