-- purpose: removes streams that hold nothing.
-- inputs: none
-- returns: nothing
-- invariant: a stream with a ready or running job stays.
DELETE FROM stream WHERE ready = 0 AND running = 0
