-- purpose: a worker's card.
-- inputs: 1 worker
-- returns: card, beat, seen_us, unbroken_us, lease_us, lost, ticket
-- invariant: reads only.
SELECT card, beat, seen_us, unbroken_us, lease_us, lost, ticket FROM card WHERE worker = ?1
