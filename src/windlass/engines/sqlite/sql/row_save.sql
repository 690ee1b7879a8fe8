-- purpose: writes everything about a job that can change.
-- inputs: 1 to 46 the columns of rows.Row in order
-- returns: nothing
-- invariant: the request's own columns (task, priority, lane, gate, needs, flow) never change, and the unique key is only
--            ever taken away (key_clear): a row that was read before must not bring it back.
UPDATE job SET
  state = ?3, queue = ?4, stream = ?6, rank = ?7,
  fence = ?8, settled_fence = ?9, worker = ?10, ticket = ?11,
  attempt = ?12, crashes = ?13, losses = ?14, suspect = ?15,
  cancel_asked = ?16, created_us = ?18, due_us = ?19, claimed_us = ?20,
  started_us = ?21, ended_us = ?22, expires_us = ?23, purge_us = ?24,
  keep_us = ?25, reason = ?26, hold = ?27, place = ?30,
  slot = ?31, parked = ?37, open_edges = ?39, heir = ?40, heir_of = ?41,
  home = ?42, noted = ?43, failure = ?44, fingerprint = ?45,
  result_until_us = ?46
WHERE seq = ?1
