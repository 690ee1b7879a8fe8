-- purpose: puts a job with a record of its own into the table.
-- inputs: 1 to 46 the columns of rows.Row in order, 47 extra, 48 options, 49 payload, 50 result
-- returns: nothing
-- invariant: the id is not there yet: the caller has looked, under the gate.
INSERT INTO job (
  seq, id, state, queue, task, stream, rank, fence,
  settled_fence, worker, ticket, attempt, crashes, losses, suspect, cancel_asked,
  priority, created_us, due_us, claimed_us, started_us, ended_us, expires_us, purge_us,
  keep_us, reason, hold, lane, lane_limit, place, slot, ukey,
  ukey_clears, ukey_until_us, gate, needs, parked, flow, open_edges, heir,
  heir_of, home, noted, failure, fingerprint, result_until_us,
  extra, options, payload, result
) VALUES (
  ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10,
  ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
  ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30,
  ?31, ?32, ?33, ?34, ?35, ?36, ?37, ?38, ?39, ?40,
  ?41, ?42, ?43, ?44, ?45, ?46, ?47, ?48, ?49, ?50
)
