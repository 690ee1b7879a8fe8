-- purpose: the streams with jobs, for claim to choose from.
-- inputs: none
-- returns: id, queue, gate, needs, task, suspect, ready, running
-- invariant: reads only; streams are few: one per queue, gate and resource class.
SELECT id, queue, gate, needs, task, suspect, ready, running FROM stream_now WHERE ready > 0 OR running > 0
