-- purpose: takes ready jobs for a worker.
-- inputs: 1 JSON list of seqs, 2 worker, 3 ticket, 4 now
-- returns: nothing
-- invariant: the fence grows with every claim, even if the clock went back; claim_heads has shown the same.
UPDATE job SET state = 'running', worker = ?2, ticket = ?3, claimed_us = ?4, started_us = NULL,
  fence = max(fence + 1, ?4)
WHERE seq IN (SELECT value FROM json_each(?1))
