-- purpose: the first schema: jobs in one table, an index per way of finding them, small tables around them.
-- invariant: a job is in exactly one state; indexes are partial, so that a state's index holds that state only
--            and cost grows neither with the backlog, nor with held, nor with finished jobs.

-- Every write changes a few counters. They share one small table, and so, most of the time, one page: each page that a
-- commit touches is written and synced, and three tables of counters made a lone insert a quarter slower.
CREATE TABLE book (
  kind   INTEGER NOT NULL,              -- 0 the store's own, 1 a stream's, 2 a tally's
  stream INTEGER NOT NULL DEFAULT 0,    -- stream.id, for kind 1
  queue  TEXT NOT NULL DEFAULT '',      -- for kind 2
  task   TEXT NOT NULL DEFAULT '',
  state  TEXT NOT NULL DEFAULT '',
  a      INTEGER NOT NULL,              -- schema; ready; n
  b      INTEGER NOT NULL DEFAULT 0,    -- seq; running
  c      INTEGER NOT NULL DEFAULT 0,    -- rank_order
  d      INTEGER NOT NULL DEFAULT 0,    -- commits
  e      INTEGER NOT NULL DEFAULT 0,    -- facts
  PRIMARY KEY (kind, stream, queue, task, state)
) STRICT, WITHOUT ROWID;
INSERT INTO book (kind, a) VALUES (0, 1);

CREATE VIEW meta AS SELECT
  a AS schema,                          -- checked under the gate by every write
  b AS seq,                             -- the last job number given out; never reused
  c AS rank_order,                      -- the kept counter of DESIGN §4: max(last + 1, clock)
  d AS commits,                         -- grows with every commit: tells whether a commit survived
  e AS facts                            -- the last version of any fact: a deleted key never shows an old one
FROM book WHERE kind = 0;

CREATE VIEW tally AS SELECT queue, task, state, a AS n FROM book WHERE kind = 2 AND stream = 0;

CREATE TABLE stream (
  id      INTEGER PRIMARY KEY,
  queue   TEXT NOT NULL,
  gate    TEXT NOT NULL,                -- '' where the task shares none
  needs   TEXT NOT NULL,                -- the resource class, '' where nothing is needed
  task    TEXT NOT NULL,                -- '' but for parked jobs
  suspect INTEGER NOT NULL,
  UNIQUE (queue, gate, needs, task, suspect)
) STRICT;

CREATE VIEW stream_now AS
SELECT stream.*, book.a AS ready, book.b AS running
FROM book JOIN stream ON stream.id = book.stream WHERE book.kind = 1;

CREATE TABLE job (
  seq           INTEGER PRIMARY KEY,
  id            BLOB NOT NULL,
  state         TEXT NOT NULL,
  queue         TEXT NOT NULL,
  task          TEXT NOT NULL,
  stream        INTEGER,                -- while ready or running; a first-try success keeps its last one
  rank          INTEGER NOT NULL,
  fence         INTEGER NOT NULL DEFAULT 0,
  settled_fence INTEGER NOT NULL DEFAULT 0,
  worker        BLOB,
  ticket        INTEGER NOT NULL DEFAULT 0,
  attempt       INTEGER NOT NULL DEFAULT 1,
  crashes       INTEGER NOT NULL DEFAULT 0,
  losses        INTEGER NOT NULL DEFAULT 0,
  suspect       INTEGER NOT NULL DEFAULT 0,
  cancel_asked  INTEGER NOT NULL DEFAULT 0,
  priority      INTEGER NOT NULL,
  created_us    INTEGER NOT NULL,
  due_us        INTEGER NOT NULL,
  claimed_us    INTEGER,
  started_us    INTEGER,
  ended_us      INTEGER,
  expires_us    INTEGER,
  purge_us      INTEGER,                -- when the record may go
  keep_us       INTEGER NOT NULL DEFAULT 0,
  reason        TEXT,
  hold          TEXT,                   -- what a held job waits for
  lane          TEXT,
  lane_limit    INTEGER,
  place         INTEGER,                -- its place among those who wait for the lane
  slot          INTEGER NOT NULL DEFAULT 0,  -- whether it holds one of the lane's places
  ukey          TEXT,                   -- while it blocks others
  ukey_clears   TEXT,                   -- start, end or time
  ukey_until_us INTEGER,
  gate          TEXT NOT NULL DEFAULT '',
  needs         TEXT NOT NULL DEFAULT '',
  parked        INTEGER NOT NULL DEFAULT 0,
  flow          BLOB,
  open_edges    INTEGER NOT NULL DEFAULT 0,
  heir          BLOB,
  heir_of       BLOB,
  home          TEXT,                   -- the queue it was sent to, where it lies in another
  noted         INTEGER NOT NULL DEFAULT 0,  -- whether attempts, logs, progress or steps exist
  failure       BLOB,                   -- JSON of core.job.Failure
  fingerprint   TEXT,
  extra         BLOB,                   -- JSON of the request's rare fields
  options       BLOB,
  result        BLOB,
  result_until_us INTEGER NOT NULL DEFAULT 0,
  payload       BLOB NOT NULL
) STRICT;

CREATE UNIQUE INDEX job_id ON job (id);
CREATE INDEX job_ready ON job (stream, rank) WHERE state = 'ready';
CREATE INDEX job_due ON job (due_us) WHERE state = 'scheduled';
CREATE INDEX job_scheduled ON job (queue, due_us) WHERE state = 'scheduled';
CREATE INDEX job_held ON job (queue) WHERE state = 'held';
CREATE INDEX job_in_lane ON job (lane, place) WHERE state = 'held' AND hold = 'lane';
CREATE INDEX job_running ON job (worker) WHERE state = 'running';
CREATE INDEX job_live_task ON job (task) WHERE ended_us IS NULL;
CREATE INDEX job_ended_queue ON job (state, queue, ended_us) WHERE ended_us IS NOT NULL;
CREATE INDEX job_ended_task ON job (state, task, ended_us) WHERE ended_us IS NOT NULL;
-- What has ended is in one of these two: the second is cut by number too, and must meet nothing else on its way.
CREATE INDEX job_purge ON job (purge_us) WHERE purge_us IS NOT NULL AND (state != 'succeeded' OR ukey IS NOT NULL);
CREATE INDEX job_purge_succeeded ON job (purge_us) WHERE purge_us IS NOT NULL AND state = 'succeeded' AND ukey IS NULL;
CREATE INDEX job_expires ON job (expires_us) WHERE expires_us IS NOT NULL AND ended_us IS NULL;
CREATE UNIQUE INDEX job_ukey ON job (ukey) WHERE ukey IS NOT NULL;
CREATE INDEX job_ukey_until ON job (ukey_until_us) WHERE ukey_until_us IS NOT NULL;
CREATE INDEX job_lane ON job (lane) WHERE lane IS NOT NULL;
CREATE INDEX job_flow ON job (flow) WHERE flow IS NOT NULL;
CREATE INDEX job_fingerprint ON job (fingerprint, ended_us) WHERE fingerprint IS NOT NULL;

CREATE TABLE lane (
  name      TEXT PRIMARY KEY,
  slots     INTEGER NOT NULL DEFAULT 1,
  busy      INTEGER NOT NULL DEFAULT 0,
  last_rank INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE edge (
  parent BLOB NOT NULL,                 -- the id that dependents wait for; an heir stands in for it
  child  INTEGER NOT NULL,              -- job.seq
  kind   TEXT NOT NULL,                 -- succeeded or ended
  PRIMARY KEY (parent, child, kind)
) STRICT, WITHOUT ROWID;

CREATE TABLE flow (
  id      BLOB PRIMARY KEY,
  started INTEGER NOT NULL DEFAULT 0,
  live    INTEGER NOT NULL DEFAULT 0,   -- nodes that have not ended
  nodes   INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE chore (
  id   INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,                   -- close, insert, lane, start or retain
  key  BLOB NOT NULL,
  at   INTEGER NOT NULL DEFAULT 0,      -- how far it has come
  note BLOB
) STRICT;

CREATE TABLE card (
  worker      BLOB PRIMARY KEY,
  card        BLOB NOT NULL,            -- JSON of protocol.Card
  beat        INTEGER NOT NULL,
  seen_us     INTEGER NOT NULL,
  unbroken_us INTEGER NOT NULL,
  lease_us    INTEGER NOT NULL,
  lost        INTEGER NOT NULL DEFAULT 0,
  ticket      INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE fact (
  key        TEXT PRIMARY KEY,
  value      BLOB NOT NULL,
  version    INTEGER NOT NULL,
  expires_us INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX fact_expires ON fact (expires_us) WHERE expires_us IS NOT NULL;

CREATE TABLE bucket (                   -- the token bucket of a rated gate
  gate   TEXT PRIMARY KEY,
  tat_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE history (
  span     TEXT NOT NULL,
  start_us INTEGER NOT NULL,
  queue    TEXT NOT NULL,
  task     TEXT NOT NULL,
  name     TEXT NOT NULL,
  n        INTEGER NOT NULL,
  PRIMARY KEY (span, start_us, queue, task, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE attempt (
  job    INTEGER NOT NULL,
  number INTEGER NOT NULL,
  data   BLOB NOT NULL,                 -- JSON of core.job.Attempt
  PRIMARY KEY (job, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE logbook (                  -- how much of a job's log is kept, and where its tail begins
  job        INTEGER PRIMARY KEY,
  number     INTEGER NOT NULL,
  head_bytes INTEGER NOT NULL,
  tail_bytes INTEGER NOT NULL,
  tail_from  INTEGER NOT NULL           -- 0 while everything fits the head
) STRICT;

CREATE TABLE log (
  job     INTEGER NOT NULL,
  number  INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  at_us   INTEGER NOT NULL,
  text    BLOB NOT NULL,
  PRIMARY KEY (job, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE progress (
  job   INTEGER PRIMARY KEY,
  at_us INTEGER NOT NULL,
  data  BLOB NOT NULL
) STRICT;

CREATE TABLE step (
  job  INTEGER NOT NULL,
  key  TEXT NOT NULL,
  data BLOB NOT NULL,
  PRIMARY KEY (job, key)
) STRICT, WITHOUT ROWID;
