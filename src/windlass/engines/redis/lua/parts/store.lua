-- Part: rows, shelves and counters. Every script begins with it, so every script checks the schema first.
--
-- A row is a job's record: a Lua table of numbered fields, kept as MessagePack without its trailing defaults. Rows are
-- read once, changed in memory, and written together by `finish`. So are the sorted sets: nothing is written before
-- everything has been looked at, but for lines of lanes, edges, keys and chores, which are read again in the same step.
--
-- A job stands on exactly one shelf, by its state: `leave` takes it off, `arrive` puts it on the next one. Whoever moves
-- a job calls leave, changes fields, calls arrive.

local call, format, sub = redis.call, string.format, string.sub
local P = sub(KEYS[1], 1, -5)

local meta = call('HMGET', KEYS[1], 'schema', 'order', 'version')
if meta[1] and meta[1] ~= ARGV[2] then
  return redis.error_reply('WINDLASS SCHEMA ' .. meta[1])
end
local order, version = tonumber(meta[2] or 0), tonumber(meta[3] or 0)
local order_before, version_before = order, version

local now
if ARGV[1] == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
else
  now = tonumber(ARGV[1])
end

local HELD, READY, SCHEDULED, RUNNING, SUCCEEDED, DEAD, CANCELLED, EXPIRED = 1, 2, 3, 4, 5, 6, 7, 8
local FLOW, PARENTS, LANE_FULL = 1, 2, 3

-- The fields of a row; rows.py has the same list. The rarer ones come last: defaults at the end are not stored.
local STATE, QUEUE, TASK, RANK, DUE, CREATED, PRIORITY, ATTEMPT = 1, 2, 3, 4, 5, 6, 7, 8
local FENCE, SETTLED, CLAIMED, STARTED, ENDED, WORKER, TICKET = 9, 10, 11, 12, 13, 14, 15
local KEEP, PURGE, RESULT_UNTIL, EXTRAS, CRASHES, LOSSES, SUSPECT = 16, 17, 18, 19, 20, 21, 22
local REASON, ASKED, HOLD, EXPIRES, GATE, NEEDS, PARKED = 23, 24, 25, 26, 27, 28, 29
local LANE, LANE_LIMIT, SLOT, FLOW_ID, EDGES = 30, 31, 32, 33, 34
local UNTIL, KEY, KEY_UNTIL, HEIR, HEIR_OF, PRINT = 35, 36, 37, 38, 39, 40
local FIELDS = 40
local DEFAULT = {
  0, '', '', 0, 0, 0, 0, 1, '0', '0', 0, 0, 0, '', 0, -1, 0, 0, 0, 0, 0, 0,
  '', 0, 0, 0, '', '', 0, '', 0, 0, '', 0, 0, '', 0, '', '', '',
}
local MISSING = { __index = DEFAULT }

-- Fields of a request's head; requests.py has the same list.
local R_TASK, R_QUEUE, R_PRIORITY, R_DELAY, R_AT, R_EXPIRES, R_LANE, R_LANE_LIMIT = 1, 2, 3, 4, 5, 6, 7, 8
local R_UNTIL, R_KEY, R_PERIOD, R_GATE, R_NEEDS, R_FLOW, R_PARENTS, R_RETRY_OF, R_TAGS = 9, 10, 11, 12, 13, 14, 15, 16, 17

-- What a job has besides its record: bits of EXTRAS.
local HAS_EXTRA, HAS_LOG, HAS_ATTEMPTS, HAS_STEPS = 1, 2, 4, 8

local rows, ids, dirty = {}, {}, {}

local function number(value)
  return format('%.0f', value)
end

local bytes = setmetatable({}, {
  __index = function(known, pair)
    known[pair] = string.char(tonumber(pair, 16))
    return known[pair]
  end,
})

local function unhex(text)
  return (string.gsub(text, '..', bytes))
end

local function hex(id)
  return (string.gsub(id, '.', function(char) return format('%02x', string.byte(char)) end))
end

-- ── rows ──

-- What was packed, or nothing where it is damaged: one bad value must not stop a script, and so everybody, for ever.
local function unpacked(packed)
  local fine, value = pcall(cmsgpack.unpack, packed)
  return fine and type(value) == 'table' and value or nil
end

-- A record that cannot be read is none.
local function adopt(id, packed)
  local row = packed and unpacked(packed)
  if row and type(row[STATE]) == 'number' and type(row[QUEUE]) == 'string' and type(row[TASK]) == 'string' then
    setmetatable(row, MISSING)
  else
    row = false
  end
  rows[id] = row
  if row then ids[row] = id end
  return row
end

local function load(id)
  local row = rows[id]
  if row == nil then row = adopt(id, call('GET', P .. 'j:' .. id)) end
  return row
end

-- Reads many rows at once.
local function preload(wanted)
  local keys, missing = {}, {}
  for _, id in ipairs(wanted) do
    if rows[id] == nil then
      missing[#missing + 1] = id
      keys[#keys + 1] = P .. 'j:' .. id
    end
  end
  for start = 1, #keys, 1000 do
    local found = call('MGET', unpack(keys, start, math.min(start + 999, #keys)))
    for index, packed in ipairs(found) do adopt(missing[start + index - 1], packed) end
  end
end

local function new_row(id)
  local row = setmetatable({}, MISSING)
  rows[id], ids[row] = row, id
  return row
end

local function pack(row)
  local last = FIELDS
  while row[last] == DEFAULT[last] do last = last - 1 end
  local out = {}
  for field = 1, last do out[field] = row[field] end
  return cmsgpack.pack(out)
end

local function save(row)
  dirty[row] = true
end

-- The part of a request that the store may read; nothing where it cannot be read. Its payload stays where it is.
local function head_of(id)
  local size = call('GETRANGE', P .. 'r:' .. id, 0, 3)
  if #size < 4 then return nil end
  return unpacked(call('GETRANGE', P .. 'r:' .. id, 8, 7 + struct.unpack('>I4', size)))
end

-- ── sorted sets, written together ──

local shelves, touched = {}, {}

-- Puts a member at a score, or takes it away (false); the last word counts.
local function zput(key, member, score)
  local shelf = shelves[key]
  if not shelf then
    shelf = {}
    shelves[key] = shelf
  end
  shelf[member] = score
end

local plain, classes = {}, {}

-- Needs rounded up to few sizes, so that jobs of nearly equal size share a stream (core/gates.py).
local function class_of(needs)
  local class = classes[needs]
  if not class then
    local sizes = {}
    for name, text in string.gmatch(needs, '([^=,]+)=([^,]+)') do
      local amount = tonumber(text)
      local _, bits = math.frexp(amount)
      local step = 2 ^ math.max(0, bits - 3)
      sizes[#sizes + 1] = name .. '=' .. number(math.ceil(amount / step) * step)
    end
    table.sort(sizes)
    class = table.concat(sizes, ',')
    classes[needs] = class
  end
  return class
end

local function stream_of(row)
  local queue = row[QUEUE]
  if row[GATE] == '' and row[NEEDS] == '' and row[PARKED] == 0 and row[SUSPECT] == 0 then
    local name = plain[queue]
    if not name then
      name = queue .. '||||0'
      plain[queue] = name
    end
    return name
  end
  if row[PARKED] == 1 then
    return queue .. '|' .. row[GATE] .. '|' .. row[NEEDS] .. '|' .. row[TASK] .. '|' .. row[SUSPECT]
  end
  return queue .. '|' .. row[GATE] .. '|' .. class_of(row[NEEDS]) .. '||' .. row[SUSPECT]
end

local function send(command, key, args)
  for start = 1, #args, 1000 do
    call(command, P .. key, unpack(args, start, math.min(start + 999, #args)))
  end
end

-- The heads of a queue's streams, so that claim finds the first of each without looking at the others. The streams
-- behind a gate that tasks share are also listed by its name: they may be of several queues.
local function set_heads()
  for stream, queue in pairs(touched) do
    local first = call('ZRANGE', P .. 's:' .. stream, 0, 0, 'WITHSCORES')
    local gate = string.match(stream, '^|([^|]+)', #queue + 1)
    if gate then call(first[1] and 'SADD' or 'SREM', P .. 'behind:' .. gate, stream) end
    if first[1] then
      call('ZADD', P .. 'h:' .. queue, first[2], stream)
      call('SADD', P .. 'queues', queue)
    else
      call('ZREM', P .. 'h:' .. queue, stream)
      if call('EXISTS', P .. 'h:' .. queue) == 0 then
        call('SREM', P .. 'queues', queue)
        call('HDEL', P .. 'news', queue)
      end
    end
  end
  touched = {}
end

local function flush()
  for key, shelf in pairs(shelves) do
    local put, taken = {}, {}
    for member, score in pairs(shelf) do
      if score then
        put[#put + 1] = score
        put[#put + 1] = member
      else
        taken[#taken + 1] = member
      end
    end
    send('ZREM', key, taken)
    send('ZADD', key, put)
  end
  shelves = {}
  set_heads()
end

-- ── the shelf of each state ──

local counts, runs, woken, ends, asked = {}, {}, {}, {}, {}
local at_end, requests = {}, {}

local function count(row, n)
  local key = row[QUEUE] .. '|' .. row[TASK] .. '|' .. row[STATE]
  counts[key] = (counts[key] or 0) + n
end

local function run(row, n)
  local queue = 'queue/' .. row[QUEUE]
  runs[queue] = (runs[queue] or 0) + n
  if row[GATE] ~= '' then
    local gate = 'gate/' .. row[GATE]
    runs[gate] = (runs[gate] or 0) + n
  end
end

local function put(row, id, there)
  local state = row[STATE]
  if state == READY then
    local stream = stream_of(row)
    zput('s:' .. stream, id, there and row[RANK])
    touched[stream] = row[QUEUE]
  elseif state == RUNNING then
    zput('w:' .. row[WORKER], id, there and row[RANK])
    run(row, there and 1 or -1)
  elseif state == SCHEDULED then
    zput('due', id, there and row[DUE])
  elseif state == HELD then
    zput('held', id, there and row[CREATED])
  else
    zput('e:' .. state .. '|' .. row[QUEUE] .. '|' .. row[TASK], id, there and row[ENDED])
  end
  if row[EXPIRES] > 0 then
    zput('exp', id, there and state <= SCHEDULED and row[EXPIRES])
  end
end

-- Takes a job off its shelf; its fields may be changed then.
local function leave(row)
  if row[STATE] == 0 then return end
  local id = ids[row]
  put(row, id, false)
  count(row, -1)
  if row[STATE] == RUNNING and row[ASKED] == 1 then call('SREM', P .. 'asked:' .. row[WORKER], id) end
end

-- Puts a job on the shelf of a state.
local function arrive(row, state)
  row[STATE] = state
  local id = ids[row]
  put(row, id, true)
  count(row, 1)
  if row[PRINT] ~= '' then
    zput('fp:' .. row[PRINT], id, row[ENDED] > 0 and row[ENDED] or row[CREATED])
  end
  dirty[row] = true
end

local function wake(queue)
  woken[queue] = true
end

local function next_order()
  order = math.max(order + 1, now)
  return order
end

-- ── fences: whole numbers of any size, as text ──

local function less(one, other)
  if #one ~= #other then return #one < #other end
  return one < other
end

local function next_fence(previous)
  local fence = number(now)
  if less(previous, fence) then return fence end
  local digits, place = previous, #previous
  while place > 0 and sub(digits, place, place) == '9' do place = place - 1 end
  local zeros = string.rep('0', #digits - place)
  if place == 0 then return '1' .. zeros end
  return sub(digits, 1, place - 1) .. (sub(digits, place, place) + 1) .. zeros
end

-- ── unique keys ──

local function clear_key(row)
  local key = row[KEY]
  if key == '' then return end
  call('DEL', P .. 'k:' .. key)
  if row[KEY_UNTIL] > 0 then zput('keys', key, false) end
  row[KEY], row[KEY_UNTIL] = '', 0
  dirty[row] = true
end

local function take_key(row, key, until_us)
  row[KEY] = key
  call('SET', P .. 'k:' .. key, ids[row])
  if until_us > 0 then
    row[KEY_UNTIL] = until_us
    zput('keys', key, until_us)
  end
end

-- The job that blocks a key now.
local function holder(key)
  local id = call('GET', P .. 'k:' .. key)
  local row = id and load(id)
  if not row then return nil end
  if row[KEY_UNTIL] > 0 and row[KEY_UNTIL] <= now then
    clear_key(row)
    return nil
  end
  return row
end

-- ── failures ──

local function set_extra(row, field, value)
  local id = ids[row]
  if value and value ~= '' then
    call('HSET', P .. 'x:' .. id, field, value)
    if row[EXTRAS] % 2 == 0 then row[EXTRAS] = row[EXTRAS] + HAS_EXTRA end
  elseif row[EXTRAS] % 2 == 1 then
    call('HDEL', P .. 'x:' .. id, field)
  end
end

local function set_failure(row, failure, print)
  set_extra(row, 'failure', failure)
  if row[PRINT] ~= '' and row[PRINT] ~= print then zput('fp:' .. row[PRINT], ids[row], false) end
  row[PRINT] = print
end

-- ── the end of a step ──

-- Rings one idle worker for each queue that got a job. One whose process is gone hears nothing and is forgotten.
local function ring(queue)
  for _, room in ipairs({ queue, '*' }) do
    local ear = call('SPOP', P .. 'idle:' .. room)
    while ear do
      if call('PUBLISH', P .. 'ear:' .. ear, 'work ' .. queue) > 0 then return end
      ear = call('SPOP', P .. 'idle:' .. room)
    end
  end
end

local function tell()
  local news = false
  for queue in pairs(woken) do
    if not news then
      version = version + 1
      news = true
    end
    call('HSET', P .. 'news', queue, version)
    ring(queue)
  end
  for id in pairs(ends) do call('PUBLISH', P .. 'end:' .. id, '') end
  for worker in pairs(asked) do call('PUBLISH', P .. 'order:' .. worker, '') end
end

local function finish()
  flush()
  for _, write in ipairs(at_end) do write() end
  local pairs_ = {}
  for row in pairs(dirty) do
    local id = ids[row]
    if rows[id] == row then
      pairs_[#pairs_ + 1] = P .. 'j:' .. id
      pairs_[#pairs_ + 1] = pack(row)
    end
  end
  for id, request in pairs(requests) do
    pairs_[#pairs_ + 1] = P .. 'r:' .. id
    pairs_[#pairs_ + 1] = request
  end
  for start = 1, #pairs_, 1000 do call('MSET', unpack(pairs_, start, math.min(start + 999, #pairs_))) end
  local ended = 0
  for key, n in pairs(counts) do
    if n ~= 0 then
      if call('HINCRBY', P .. 'counts', key, n) == 0 then call('HDEL', P .. 'counts', key) end
      if sub(key, -2) == '|5' then ended = ended + n end
    end
  end
  if ended ~= 0 then call('HINCRBY', KEYS[1], 'succeeded', ended) end
  for gate, n in pairs(runs) do
    if n ~= 0 and call('HINCRBY', P .. 'run', gate, n) == 0 then call('HDEL', P .. 'run', gate) end
  end
  tell()
  if order ~= order_before or version ~= version_before then
    call('HSET', KEYS[1], 'order', order, 'version', version)
  end
end
