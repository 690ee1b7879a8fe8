-- purpose: whether there is any edge at all: most stores have none, and then no settle looks further.
-- inputs: none
-- returns: 1, or nothing
-- invariant: reads only.
SELECT 1 FROM edge LIMIT 1
