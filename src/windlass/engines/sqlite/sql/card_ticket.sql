-- purpose: keeps a worker's last ticket.
-- inputs: 1 worker, 2 ticket
-- returns: nothing
-- invariant: tickets only grow.
UPDATE card SET ticket = ?2 WHERE worker = ?1
