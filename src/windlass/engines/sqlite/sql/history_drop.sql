-- purpose: drops history past its bound.
-- inputs: 1 span, 2 before start_us
-- returns: nothing
-- invariant: newer buckets stay.
DELETE FROM history WHERE span = ?1 AND start_us < ?2
