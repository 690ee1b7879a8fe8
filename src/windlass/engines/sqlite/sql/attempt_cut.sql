-- purpose: keeps only the last attempts of a job.
-- inputs: 1 job, 2 how many
-- returns: nothing
-- invariant: a job that snoozes for ever does not grow for ever.
DELETE FROM attempt WHERE job = ?1 AND number <= (SELECT max(number) FROM attempt WHERE job = ?1) - ?2
