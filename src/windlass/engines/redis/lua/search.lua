-- search: the next records of one shelf, or of several merged, filtered. Bounded: the caller goes on where it stopped.
-- with: rows extras
--
-- KEYS    meta
-- ARGV    now, schema, {newest first, records to look at, jobs wanted (0: count), from score,
--         since or false, until or false, stops, state, queue, task, worker, lane, flow, fingerprint, tag}, from id, shelves…
-- returns scanned, counted, done, last score, last id, its time, then {id, record, request, failure} of each job
-- Writes nothing.

local newest, most, wanted, from_score, since, until_, stops, state, queue, task, worker, lane, flow, print, tag =
  unpack(cmsgpack.unpack(ARGV[3]))
local from_id = ARGV[4]

local range = newest == 1 and 'ZREVRANGE' or 'ZRANGE'

-- Whether (score, id) comes after the position where the page before stopped.
local function is_past(score, id)
  if newest == 1 then return score < from_score or (score == from_score and id < from_id) end
  return score > from_score or (score == from_score and id > from_id)
end

-- The first place of a shelf past the position: its order is that of (score, id), so halving finds it.
local function start_of(shelf)
  if not from_score then return 0 end
  local low, high = 0, call('ZCARD', P .. shelf)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local found = call(range, P .. shelf, middle, middle, 'WITHSCORES')
    if is_past(tonumber(found[2]), found[1]) then high = middle else low = middle + 1 end
  end
  return low
end

if not from_score and newest == 1 and stops == 1 and until_ then
  from_score, from_id = until_, ''
end

local CHUNK = 64
local walks = {}

-- The more shelves there are, the fewer of their records are read at first: most of them will not be needed.
local function step(walk)
  walk.at = walk.at + 2
  if walk.at > #walk.found then
    if walk.done then
      walk.score = nil
      return
    end
    local size = walk.size
    walk.found = call(range, P .. walk.shelf, walk.from, walk.from + size - 1, 'WITHSCORES')
    walk.from, walk.at, walk.done = walk.from + size, 1, #walk.found < 2 * size
    walk.size = math.min(CHUNK, 2 * size)
    if size > 1 then
      local some = {}
      for index = 1, #walk.found, 2 do some[#some + 1] = walk.found[index] end
      preload(some)
    end
  end
  walk.id, walk.score = walk.found[walk.at], tonumber(walk.found[walk.at + 1])
end

local size = math.max(1, math.floor(CHUNK / (#ARGV - 4)))
for index = 5, #ARGV do
  local walk = { shelf = ARGV[index], from = start_of(ARGV[index]), at = 0, found = {}, size = size }
  step(walk)
  if walk.score then walks[#walks + 1] = walk end
end

local function comes_later(one, other)
  if newest == 1 then return one.score < other.score or (one.score == other.score and one.id < other.id) end
  return one.score > other.score or (one.score == other.score and one.id > other.id)
end

-- The walk that comes first is the last; one that has gone on is put back where it belongs.
table.sort(walks, comes_later)

local function go_on()
  local walk = table.remove(walks)
  step(walk)
  if not walk.score then return end
  local low, high = 1, #walks + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    if comes_later(walks[middle], walk) then low = middle + 1 else high = middle end
  end
  table.insert(walks, low, walk)
end

local function has_tag(id)
  for _, each in ipairs((extras.head_of(id) or {})[R_TAGS] or {}) do
    if each == tag then return true end
  end
  return false
end

local function matches(row, id, time)
  return (state == 0 or row[STATE] == state)
    and (queue == '' or row[QUEUE] == queue)
    and (task == '' or row[TASK] == task)
    and (worker == '' or (row[STATE] == RUNNING and row[WORKER] == worker))
    and (lane == '' or row[LANE] == lane)
    and (flow == '' or row[FLOW_ID] == flow)
    and (print == '' or row[PRINT] == print)
    and (not since or time >= since)
    and (not until_ or time < until_)
    and (tag == '' or has_tag(id))
end

local scanned, counted, found, done, last, back_to = 0, 0, {}, 1, nil, false
while true do
  local walk = walks[#walks]
  if not walk or (stops == 1 and since and walk.score < since) then break end
  if scanned == most or (wanted > 0 and #found == wanted) then
    done = 0
    break
  end
  scanned = scanned + 1
  local id, row = walk.id, row_of(walk.id)
  last = { number(walk.score), id }
  if row then
    local time = row[ENDED] > 0 and row[ENDED] or row[CREATED]
    back_to = number(time)
    if matches(row, id, time) then
      counted = counted + 1
      if wanted > 0 then found[#found + 1] = id end
    end
  end
  go_on()
end

local answer = { scanned, counted, done, last and last[1] or false, last and last[2] or false, back_to }
for _, id in ipairs(found) do
  local row = rows[id]
  local request = call('GETRANGE', P .. 'r:' .. id, 0, 7)
  if #request == 8 then
    local head, options = struct.unpack('>I4I4', request)
    request = call('GETRANGE', P .. 'r:' .. id, 0, 7 + head + options)
  end
  answer[#answer + 1] = {
    id,
    pack(row),
    request,
    row[EXTRAS] % 2 == 1 and call('HGET', P .. 'x:' .. id, 'failure') or false,
  }
end
return answer
