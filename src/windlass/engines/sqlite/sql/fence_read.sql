-- purpose: what decides whether a write may touch a record.
-- inputs: 1 id
-- returns: seq, state, fence, settled_fence, attempt
-- invariant: reads only.
SELECT seq, state, fence, settled_fence, attempt FROM job WHERE id = ?1
