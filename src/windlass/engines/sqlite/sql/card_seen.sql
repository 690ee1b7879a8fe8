-- purpose: a beat that came late or twice: the worker lives, its card stays as it is.
-- inputs: 1 worker, 2 seen_us, 3 unbroken_us
-- returns: nothing
-- invariant: a lost card is never written again.
UPDATE card SET seen_us = ?2, unbroken_us = ?3 WHERE worker = ?1 AND lost = 0
