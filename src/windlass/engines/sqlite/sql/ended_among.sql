-- purpose: which jobs have ended or are gone.
-- inputs: 1 JSON list of hexadecimal ids
-- returns: hexadecimal ids
-- invariant: reads only.
SELECT value FROM json_each(?1) WHERE NOT EXISTS (SELECT 1 FROM job WHERE id = unhex(value) AND ended_us IS NULL)
