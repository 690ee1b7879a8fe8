-- purpose: the rules of all gates, with their buckets.
-- inputs: 1 now
-- returns: key, value, tat_us
-- invariant: reads only.
SELECT fact.key, fact.value, coalesce(bucket.tat_us, 0)
FROM fact LEFT JOIN bucket ON bucket.gate = fact.key
WHERE (fact.key BETWEEN 'gate/' AND 'gate0' OR fact.key BETWEEN 'queue/' AND 'queue0')
  AND (fact.expires_us IS NULL OR fact.expires_us > ?1)
