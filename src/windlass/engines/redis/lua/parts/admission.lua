-- Part: how a job becomes ready, and what its end sets free (the memory engine's admission.py in Lua).
--
-- A job passes four doors and waits at the first that is shut: its flow has started, its parents have closed, it is due,
-- its lane has a place. What one step sets free may be more than a step may touch; the rest is written down as a chore.
--
-- ARGV[3] is {aging step, keep succeeded, dead, cancelled, expired, result, log bytes, successes kept}.

local limits = cmsgpack.unpack(ARGV[3])
local AGING, KEEP_RESULT, LOG_BYTES, SUCCESSES = limits[1], limits[6], limits[7], limits[8]
local KEPT = { [SUCCEEDED] = limits[2], [DEAD] = limits[3], [CANCELLED] = limits[4], [EXPIRED] = limits[5] }

local UNTIL_START, UNTIL_END, UNTIL_TIME = 1, 2, 3

local stand_ins = {}
local lanes, flows, let_in = {}, {}, 0
local admit, end_job

local function chore(...)
  call('RPUSH', P .. 'chores', cmsgpack.pack({ ... }))
end

local function root_of(row)
  return row[HEIR_OF] ~= '' and unhex(row[HEIR_OF]) or ids[row]
end

local function rank_of(due, row)
  return due - row[PRIORITY] * AGING
end

-- ── lanes ──

local function lane_of(name)
  local lane = lanes[name]
  if not lane then
    local found = call('HMGET', P .. 'lane:' .. name, 'limit', 'busy', 'last')
    lane = { limit = tonumber(found[1] or 1), busy = tonumber(found[2] or 0), last = tonumber(found[3] or 0) }
    lanes[name] = lane
  end
  return lane
end

-- A lane that is empty is forgotten, with the limit that somebody stated for it.
local function save_lane(name, lane)
  lane.changed = true
  if lane.busy == 0 and call('EXISTS', P .. 'lw:' .. name) == 0 then lane.limit, lane.last = 1, 0 end
end

-- Places are counted in the store only when nothing can go wrong any more: one that nobody has would stay taken for ever.
local function write_lanes()
  for name, lane in pairs(lanes) do
    if lane.changed and lane.busy == 0 and call('EXISTS', P .. 'lw:' .. name) == 0 then
      call('DEL', P .. 'lane:' .. name)
    elseif lane.changed then
      call('HSET', P .. 'lane:' .. name, 'limit', lane.limit, 'busy', lane.busy, 'last', lane.last)
    end
  end
end
at_end[#at_end + 1] = write_lanes

-- ── flows ──

-- Whether a flow has started, and how many of its nodes are open.
local function flow_of(name)
  local flow = flows[name]
  if not flow then
    local found = call('HMGET', P .. 'flow:' .. name, 'started', 'open')
    flow = { started = found[1] == '1', open = tonumber(found[2] or 0) }
    flows[name] = flow
  end
  return flow
end

local function count_open(name, n)
  local flow = flow_of(name)
  flow.open, flow.changed = flow.open + n, true
  return flow
end

-- Nodes are ordered by a count of their flow: ranks are dealt out to jobs that come into a stream, and a node may never.
local function add_node(name, id)
  local flow = count_open(name, 1)
  local last = flow.last or tonumber(call('ZRANGE', P .. 'fn:' .. name, -1, -1, 'WITHSCORES')[2] or 0)
  flow.last = math.max(last + 1, now)
  zput('fn:' .. name, id, flow.last)
end

-- As with lanes: what was counted for a node that is not there would keep the flow open for ever.
local function write_flows()
  for name, flow in pairs(flows) do
    if flow.left and call('EXISTS', P .. 'fn:' .. name) == 0 then
      call('DEL', P .. 'flow:' .. name)
      call('HDEL', P .. 'facts', 'flow/' .. name)
    elseif flow.changed then
      call('HSET', P .. 'flow:' .. name, 'open', flow.open)
      if flow.started then call('HSET', P .. 'flow:' .. name, 'started', 1) end
    end
  end
end
at_end[#at_end + 1] = write_flows

local function make_ready(row)
  row[HOLD] = 0
  arrive(row, READY)
  wake(row[QUEUE])
end

local function join_lane(row)
  local name = row[LANE]
  local lane = lane_of(name)
  if row[LANE_LIMIT] > 0 then lane.limit = row[LANE_LIMIT] end
  call('ZADD', P .. 'lw:' .. name, next_order(), ids[row])
  row[HOLD] = LANE_FULL
  arrive(row, HELD)
  admit(name)
end

-- Lets the first waiting jobs into their streams, each ranked above the one before it.
function admit(name)
  local lane, admitted = lane_of(name), 0
  while lane.busy < lane.limit do
    if admitted >= BATCH or let_in >= 2 * BATCH then
      chore('lane', name)
      break
    end
    local id = call('ZRANGE', P .. 'lw:' .. name, 0, 0)[1]
    if not id then break end
    call('ZREM', P .. 'lw:' .. name, id)
    local row = load(id)
    if row then
      admitted, let_in = admitted + 1, let_in + 1
      if row[EXPIRES] > 0 and row[EXPIRES] <= now then
        end_job(row, EXPIRED)
      else
        leave(row)
        lane.busy = lane.busy + 1
        row[SLOT] = 1
        row[RANK] = math.max(row[RANK], lane.last + 1)
        lane.last = row[RANK]
        make_ready(row)
      end
    end
  end
  save_lane(name, lane)
  return admitted
end

local function leave_lane(row)
  if row[LANE] == '' then return end
  if row[SLOT] == 1 then
    row[SLOT] = 0
    local lane = lane_of(row[LANE])
    lane.busy = lane.busy - 1
    admit(row[LANE])
  elseif row[HOLD] == LANE_FULL then
    call('ZREM', P .. 'lw:' .. row[LANE], ids[row])
    save_lane(row[LANE], lane_of(row[LANE]))
  end
end

-- ── the four doors ──

local function hold(row, what)
  row[HOLD] = what
  arrive(row, HELD)
end

-- Puts a job that has left its shelf where it has to wait, or into a stream. Its rank is set here and nowhere else.
local function place(row, keep_rank)
  row[HOLD] = 0
  if row[FLOW_ID] ~= '' and not flow_of(row[FLOW_ID]).started then
    return hold(row, FLOW)
  end
  if row[EDGES] > 0 then return hold(row, PARENTS) end
  if row[DUE] > now then
    if row[SLOT] == 0 then row[RANK] = rank_of(row[DUE], row) end
    arrive(row, SCHEDULED)
    return wake(row[QUEUE])
  end
  if row[SLOT] == 0 and not keep_rank then row[RANK] = rank_of(next_order(), row) end
  if row[LANE] ~= '' and row[SLOT] == 0 then return join_lane(row) end
  make_ready(row)
end

-- Writes what a request says of its job into the job's row.
local function describe(row, head)
  row[QUEUE], row[TASK], row[PRIORITY], row[CREATED] = head[R_QUEUE], head[R_TASK], head[R_PRIORITY], now
  if #head > R_AT then
    row[EXPIRES], row[LANE], row[LANE_LIMIT] = head[R_EXPIRES], head[R_LANE], head[R_LANE_LIMIT]
    row[UNTIL], row[GATE], row[NEEDS] = head[R_UNTIL], head[R_GATE], head[R_NEEDS]
    row[FLOW_ID] = head[R_FLOW]
  end
end

-- Ends a job that stands on the shelf of a state without a record that can be read: its request says what it holds.
-- False where nothing is left of it.
local function set_aside(id, shelf, state)
  zput(shelf, id, false)
  local head = call('EXISTS', P .. 'j:' .. id) == 1 and head_of(id)
  if not head then return false end
  local row = new_row(id)
  describe(row, head)
  row[STATE] = state
  count(row, -1)
  if state == RUNNING then run(row, -1) end
  row[STATE] = 0
  row[EXTRAS] = HAS_EXTRA + HAS_LOG + HAS_ATTEMPTS + HAS_STEPS
  if row[LANE] ~= '' and state ~= SCHEDULED then row[SLOT] = 1 end
  if row[UNTIL] > 0 and call('GET', P .. 'k:' .. head[R_KEY]) == id then row[KEY] = head[R_KEY] end
  end_job(row, DEAD, 'corrupt')
  return true
end

-- A due job keeps the rank it got when it was scheduled.
local function come_due(limit)
  local due = call('ZRANGEBYSCORE', P .. 'due', '-inf', now, 'LIMIT', 0, limit)
  preload(due)
  for _, id in ipairs(due) do
    local row = load(id)
    if row then
      leave(row)
      if row[LANE] ~= '' and row[SLOT] == 0 then join_lane(row) else make_ready(row) end
    else
      set_aside(id, 'due', SCHEDULED)
    end
  end
  return #due
end

-- ── the end ──

local function set_purge(row)
  row[PURGE] = math.max(row[ENDED] + row[KEEP], row[KEY_UNTIL])
  zput(row[STATE] == SUCCEEDED and 'purgeok' or 'purge', ids[row], row[PURGE])
  dirty[row] = true
end

-- Ends a job that stands on a shelf: its key, its place in the lane and its dependents are set free with it.
function end_job(row, state, reason, keep, ended_us)
  leave(row)
  row[REASON] = reason or ''
  row[ENDED] = ended_us or now
  row[KEEP] = keep or KEPT[state]
  if row[UNTIL] ~= UNTIL_TIME then clear_key(row) end
  leave_lane(row)
  row[HOLD] = 0
  arrive(row, state)
  ends[ids[row]] = true
  if row[HEIR] == '' then
    local root = root_of(row)
    if call('EXISTS', P .. 'edge:' .. root) == 1 then chore('close', root, state) end
  end
  if row[FLOW_ID] == '' then
    set_purge(row)
  elseif count_open(row[FLOW_ID], -1).open == 0 then
    chore('retain', row[FLOW_ID], '-inf')
  end
end

-- The row whose end the dependents of this one wait for.
local function resolve(id)
  local row = load(id)
  while row and row[HEIR] ~= '' do row = load(unhex(row[HEIR])) end
  return row
end

-- A job that goes before its parents have ended leaves them: who comes again under its id must not be counted twice.
local function leave_parents(row)
  for _, edge in ipairs((head_of(ids[row]) or {})[R_PARENTS] or {}) do
    local id = unhex(edge[1])
    local parent = resolve(id)
    call('LREM', P .. 'edge:' .. (parent and root_of(parent) or id), 1, ids[row] .. edge[2])
  end
end

-- Takes an ended job off every shelf.
local function drop(row)
  local id = ids[row]
  if row[EDGES] > 0 then leave_parents(row) end
  leave(row)
  zput(row[STATE] == SUCCEEDED and 'purgeok' or 'purge', id, false)
  clear_key(row)
  if row[PRINT] ~= '' then zput('fp:' .. row[PRINT], id, false) end
  if row[LANE] ~= '' then zput('la:' .. row[LANE], id, false) end
  if row[FLOW_ID] ~= '' then
    zput('fn:' .. row[FLOW_ID], id, false)
    flow_of(row[FLOW_ID]).left = true
  end
  requests[id] = nil
  call('UNLINK', P .. 'j:' .. id, P .. 'r:' .. id)
  if row[EXTRAS] > 0 then
    call('UNLINK', P .. 'x:' .. id, P .. 'lh:' .. id, P .. 'lt:' .. id, P .. 'a:' .. id, P .. 'st:' .. id)
  end
  rows[id] = false
end

-- ── coming in ──

local function preload_parents(parents)
  local wanted = {}
  for index, edge in ipairs(parents) do wanted[index] = unhex(edge[1]) end
  preload(wanted)
end

-- A job outside a flow that has not ended may wait only for parents that are here or come with it.
local function unknown_parent(request, past, coming)
  local head = cmsgpack.unpack(sub(request, 9, 8 + struct.unpack('>I4', request)))
  if not head[R_PARENTS] or head[R_FLOW] ~= '' then return nil end
  if past ~= '' and cmsgpack.unpack(past)[1] >= SUCCEEDED then return nil end
  preload_parents(head[R_PARENTS])
  for _, edge in ipairs(head[R_PARENTS]) do
    local id = unhex(edge[1])
    if not coming[id] and not resolve(id) then return edge[1], head[R_TASK] end
  end
  return nil
end

local function satisfied(on, state)
  return on == 1 or state == SUCCEEDED
end

-- Draws an edge from every parent still open; false if one has ended the wrong way.
local function join_parents(row, parents)
  preload_parents(parents or {})
  for _, edge in ipairs(parents or {}) do
    local id = unhex(edge[1])
    local parent = resolve(stand_ins[id] or id)
    if not parent or parent[STATE] < SUCCEEDED then
      call('RPUSH', P .. 'edge:' .. (parent and root_of(parent) or id), ids[row] .. edge[2])
      row[EDGES] = row[EDGES] + 1
    elseif not satisfied(edge[2], parent[STATE]) then
      return false
    end
  end
  return true
end

-- Lets those who came before a refused job, and wait for it, wait for the one that is there instead.
local function stand_in(refused, there)
  stand_ins[refused] = ids[there]
  local key = P .. 'edge:' .. refused
  if call('EXISTS', key) == 0 then return end
  local row = resolve(ids[there])
  if not row or row[STATE] >= SUCCEEDED then
    chore('close', refused, row and row[STATE] or CANCELLED)
  else
    for _, entry in ipairs(call('LRANGE', key, 0, -1)) do call('RPUSH', P .. 'edge:' .. root_of(row), entry) end
    call('DEL', key)
  end
end

-- Fields of what an imported job has behind it; requests.py has the same list.
local function bring_back(row, past, result, parents)
  row[FENCE], row[SETTLED], row[ATTEMPT], row[CRASHES] = past[3], past[4], past[5], past[6]
  row[LOSSES], row[SUSPECT], row[RANK], row[DUE], row[CREATED] = past[7], past[8], past[9], past[10], past[11]
  row[QUEUE], row[HEIR], row[HEIR_OF] = past[2], past[15], past[16]
  set_failure(row, past[17], past[18])
  for _, attempt in ipairs(past[19]) do call('RPUSH', P .. 'a:' .. ids[row], cmsgpack.pack(attempt)) end
  if #past[19] > 0 then row[EXTRAS] = row[EXTRAS] + HAS_ATTEMPTS end
  local state, ended_us = past[1], past[12] >= 0 and past[12] or now
  if state >= SUCCEEDED then
    if past[20] == 1 then set_extra(row, 'result', '+' .. result) end
    row[RESULT_UNTIL] = ended_us + KEEP_RESULT
    end_job(row, state, past[13], nil, ended_us)
  elseif join_parents(row, parents) then
    place(row, state == READY or state == RUNNING)
  else
    end_job(row, CANCELLED, 'parent')
  end
end

-- Takes a job in, unless it is here already or its unique key is held: then gives the id of the one that is there.
local function insert(id, request, past, result, heir_of)
  if load(id) then return id end
  local head = cmsgpack.unpack(sub(request, 9, 8 + struct.unpack('>I4', request)))
  past = past ~= '' and cmsgpack.unpack(past)
  local until_ = head[R_UNTIL] or 0
  -- An imported job whose key was cleared takes it no more: it neither blocks nor is blocked.
  local key = until_ > 0 and not (past and past[14] == 0) and head[R_KEY]
  if key then
    local there = holder(key)
    if there then
      stand_in(id, there)
      return ids[there]
    end
  end
  local row = new_row(id)
  describe(row, head)
  local at = head[R_AT] or -1
  row[DUE] = at >= 0 and at or now + head[R_DELAY]
  if heir_of then row[HEIR_OF] = hex(heir_of) end
  requests[id] = request
  if key then take_key(row, key, until_ == UNTIL_TIME and now + head[R_PERIOD] or 0) end
  if row[LANE] ~= '' then zput('la:' .. row[LANE], id, now) end
  if row[FLOW_ID] ~= '' then add_node(row[FLOW_ID], id) end
  if past then
    bring_back(row, past, result, head[R_PARENTS])
  elseif join_parents(row, head[R_PARENTS]) then
    place(row)
  else
    end_job(row, CANCELLED, 'parent')
  end
  return nil
end

-- ── chores ──

-- Closes edges of an ended job: a child with none left goes on, or ends with its parent.
local function close(root, state, limit)
  local done = 0
  while done < limit do
    local entry = call('LPOP', P .. 'edge:' .. root)
    if not entry then return done, true end
    done = done + 1
    local row = load(sub(entry, 1, 16))
    if row then
      row[EDGES] = row[EDGES] - 1
      dirty[row] = true
      if row[STATE] == HELD then
        if not satisfied(tonumber(sub(entry, 17)), state) then
          end_job(row, CANCELLED, 'parent')
        elseif row[EDGES] == 0 and row[HOLD] == PARENTS then
          leave(row)
          place(row)
        end
      end
    end
  end
  return done, call('EXISTS', P .. 'edge:' .. root) == 0
end

-- Goes on inserting the follow-ups of a settle that brought more than a step may touch.
local function insert_on(key, limit)
  local done = 0
  while done < limit do
    local id = call('LPOP', P .. 'ci:' .. key)
    if not id then return done, true end
    insert(id, call('LPOP', P .. 'ci:' .. key), call('LPOP', P .. 'ci:' .. key), call('LPOP', P .. 'ci:' .. key))
    done = done + 1
  end
  return done, call('EXISTS', P .. 'ci:' .. key) == 0
end

-- Starts a flow's waiting nodes, or, once it has ended, lets their retention begin.
local function walk_flow(kind, flow, from, limit)
  flush() -- nodes of this very step are among them
  local nodes = call('ZRANGEBYSCORE', P .. 'fn:' .. flow, from, '+inf', 'WITHSCORES', 'LIMIT', 0, limit)
  local open = flow_of(flow).open
  for index = 1, #nodes, 2 do
    local row = load(nodes[index])
    if row and kind == 'start' and row[HOLD] == FLOW then
      leave(row)
      place(row)
    elseif row and kind == 'retain' and open == 0 and row[STATE] >= SUCCEEDED and row[PURGE] == 0 then
      set_purge(row)
    end
  end
  return #nodes / 2, #nodes / 2 < limit, nodes[#nodes] and '(' .. nodes[#nodes]
end

-- Goes on with the oldest chores until about `limit` jobs were touched; how many were.
local function do_chores(limit)
  local done = 0
  while done < limit do
    local packed = call('LINDEX', P .. 'chores', 0)
    if not packed then return done end
    local kind, key, note = unpack(unpacked(packed) or {})
    local touched_, finished, from = 0, true, nil
    local left = math.min(BATCH, limit - done)
    if not key then
      touched_ = 0  -- it cannot be read, and nobody can do it
    elseif kind == 'lane' then
      touched_ = admit(key)
    elseif kind == 'close' then
      touched_, finished = close(key, note, left)
    elseif kind == 'insert' then
      touched_, finished = insert_on(key, left)
    else
      touched_, finished, from = walk_flow(kind, key, note, left)
    end
    done = done + math.max(1, touched_)
    if finished then
      call('LPOP', P .. 'chores')
    elseif from then
      call('LSET', P .. 'chores', 0, cmsgpack.pack({ kind, key, from }))
    end
  end
  return done
end
