-- purpose: writes a worker's card.
-- inputs: 1 worker, 2 card, 3 beat, 4 seen_us, 5 unbroken_us, 6 lease_us
-- returns: nothing
-- invariant: a lost card is never written again.
INSERT INTO card (worker, card, beat, seen_us, unbroken_us, lease_us) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (worker) DO UPDATE SET card = excluded.card, beat = excluded.beat, seen_us = excluded.seen_us,
  unbroken_us = excluded.unbroken_us, lease_us = excluded.lease_us WHERE lost = 0
