-- purpose: when the next scheduled job is due.
-- inputs: none
-- returns: due_us, or nothing
-- invariant: reads only.
SELECT due_us FROM job WHERE state = 'scheduled' ORDER BY due_us LIMIT 1
