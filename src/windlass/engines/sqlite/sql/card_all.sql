-- purpose: all cards.
-- inputs: none
-- returns: worker, card, seen_us, lease_us, lost
-- invariant: reads only.
SELECT worker, card, seen_us, lease_us, lost FROM card
