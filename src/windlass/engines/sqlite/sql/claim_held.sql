-- purpose: what a worker holds under a ticket.
-- inputs: 1 worker, 2 ticket
-- returns: id, fence, task, queue, payload, options, attempt, crashes, losses, suspect, priority, due_us, lane, flow, extra
-- invariant: reads only.
SELECT id, fence, task, queue, payload, options, attempt, crashes, losses, suspect, priority, due_us, lane, flow, extra
FROM job WHERE state = 'running' AND worker = ?1 AND ticket = ?2 ORDER BY rank, seq
