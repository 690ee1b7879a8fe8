-- Part: rows. A row is a job's record: a Lua table of numbered fields, kept as MessagePack without its trailing defaults.
-- Rows are read once, changed in memory, and written together by `finish`, if they are in `dirty`.

-- The fields of a row; rows.py has the same list. First what every running job has, then what few have.
local STATE, QUEUE, TASK, RANK, DUE, CREATED, PRIORITY, ATTEMPT = 1, 2, 3, 4, 5, 6, 7, 8
local FENCE, SETTLED, CLAIMED, STARTED, ENDED, WORKER, TICKET = 9, 10, 11, 12, 13, 14, 15
local KEEP, PURGE, RESULT_UNTIL, EXTRAS, HOLD, EXPIRES, GATE, NEEDS = 16, 17, 18, 19, 20, 21, 22, 23
local PARKED, LANE, LANE_LIMIT, SLOT, FLOW_ID, EDGES, UNTIL, KEY, KEY_UNTIL = 24, 25, 26, 27, 28, 29, 30, 31, 32
local CRASHES, LOSSES, SUSPECT, REASON, ASKED, HEIR, HEIR_OF, PRINT = 33, 34, 35, 36, 37, 38, 39, 40
local DEFAULT = {
  0, '', '', 0, 0, 0, 0, 1, '0', '0', 0, 0, 0, '', 0, -1, 0, 0, 0, 0,
  0, '', '', 0, '', 0, 0, '', 0, 0, '', 0, 0, 0, 0, '', 0, '', '', '',
}
local MISSING = {
  __index = DEFAULT,
  -- A row has no holes: so its length is known, and it is packed as it is.
  __newindex = function(row, field, value)
    for each = #row + 1, field - 1 do rawset(row, each, DEFAULT[each]) end
    rawset(row, field, value)
  end,
}

-- What a row's HOLD says, and its UNTIL.
local FLOW, PARENTS, LANE_FULL = 1, 2, 3
local UNTIL_START, UNTIL_END, UNTIL_TIME = 1, 2, 3

-- What a job has besides its record: bits of EXTRAS.
local HAS_EXTRA, HAS_LOG, HAS_ATTEMPTS, HAS_STEPS, HAS_RESULT = 1, 2, 4, 8, 16

-- Fields of a request's head; requests.py has the same list.
local R_TASK, R_QUEUE, R_PRIORITY, R_DELAY, R_AT, R_EXPIRES, R_LANE, R_LANE_LIMIT = 1, 2, 3, 4, 5, 6, 7, 8
local R_UNTIL, R_KEY, R_PERIOD, R_GATE, R_NEEDS, R_FLOW, R_PARENTS, R_RETRY_OF, R_TAGS = 9, 10, 11, 12, 13, 14, 15, 16, 17

local rows, ids, dirty = {}, {}, {}

-- A record that cannot be read is none.
local function adopt(id, packed)
  local row = packed and unpacked(packed)
  if row and type(row[STATE]) == 'number' and type(row[QUEUE]) == 'string' and type(row[TASK]) == 'string'
    and type(row[RANK] or 0) == 'number' and type(row[FENCE] or '0') == 'string'
    and type(row[WORKER] or '') == 'string' then
    setmetatable(row, MISSING)
    ids[row] = id
  else
    row = false
  end
  rows[id] = row
  return row
end

local function row_of(id)
  local row = rows[id]
  if row == nil then row = adopt(id, call('GET', P .. 'j:' .. id)) end
  return row
end

-- Reads many rows at once.
local function preload(wanted)
  local keys, missing = {}, {}
  for index = 1, #wanted do
    local id = wanted[index]
    if rows[id] == nil then
      missing[#missing + 1] = id
      keys[#keys + 1] = P .. 'j:' .. id
    end
  end
  for start = 1, #keys, 1000 do
    local found = call('MGET', unpack(keys, start, math.min(start + 999, #keys)))
    for index = 1, #found do adopt(missing[start + index - 1], found[index]) end
  end
end

local function pack(row)
  local last = #row
  while row[last] == DEFAULT[last] do
    row[last] = nil
    last = last - 1
  end
  return cmsgpack.pack(row)
end
