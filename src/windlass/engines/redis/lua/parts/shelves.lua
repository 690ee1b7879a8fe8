-- Part: shelves and counters. Sorted sets are changed in memory and written together, by `flush` or at the end: nothing is
-- written before everything has been looked at, but for lines of lanes, edges, keys and chores, which are read again in
-- the same step.
--
-- A job stands on exactly one shelf, by its state: `leave` takes it off, `arrive` puts it on the next one. Whoever moves
-- a job calls leave, changes fields, calls arrive.

local shelves, streams = {}, {}

-- Puts a member at a score, or takes it away (false); the last word counts.
local function zput(key, member, score)
  local shelf = shelves[key]
  if not shelf then
    shelf = {}
    shelves[key] = shelf
  end
  shelf[member] = score
end

local plain = {}

-- The shelf of a ready job.
local function stream_of(row)
  local queue = row[QUEUE]
  if row[GATE] == '' and row[NEEDS] == '' and row[PARKED] == 0 and row[SUSPECT] == 0 then
    local name = plain[queue]
    if not name then
      name = 's:' .. queue .. '||||0'
      plain[queue] = name
    end
    return name
  end
  if row[PARKED] == 1 then
    return 's:' .. queue .. '|' .. row[GATE] .. '|' .. row[NEEDS] .. '|' .. row[TASK] .. '|' .. row[SUSPECT]
  end
  return 's:' .. queue .. '|' .. row[GATE] .. '|' .. needs.class_of(row[NEEDS]) .. '||' .. row[SUSPECT]
end

local function send(command, key, args)
  for start = 1, #args, 1000 do
    call(command, P .. key, unpack(args, start, math.min(start + 999, #args)))
  end
end

-- What happens to a stream in this step: the first rank that comes, and whether one leaves.
local function stream_change(shelf, queue)
  local change = streams[shelf]
  if not change then
    change = { queue = queue }
    streams[shelf] = change
  end
  return change
end

-- The heads of a queue's streams, so that claim finds the first of each without looking at the others. The streams
-- behind a gate that tasks share are also listed by its name: they may be of several queues.
local function set_heads()
  for shelf, change in pairs(streams) do
    local stream, queue = sub(shelf, 3), change.queue
    local gate = string.match(stream, '^|([^|]+)', #queue + 1)
    local first = change.first
    if change.leaves then first = call('ZRANGE', P .. shelf, 0, 0, 'WITHSCORES')[2] end
    if first then
      local heads = P .. 'h:' .. queue
      local is_new = change.leaves and call('ZADD', heads, first, stream) or call('ZADD', heads, 'LT', first, stream)
      if is_new == 1 then
        call('SADD', P .. 'queues', queue)
        if gate then call('SADD', P .. 'behind:' .. gate, stream) end
      end
    else
      if gate then call('SREM', P .. 'behind:' .. gate, stream) end
      call('ZREM', P .. 'h:' .. queue, stream)
      if call('EXISTS', P .. 'h:' .. queue) == 0 then
        call('SREM', P .. 'queues', queue)
        call('HDEL', P .. 'news', queue)
      end
    end
  end
  streams = {}
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

-- ── counters ──

local counters, queue_runs, gate_runs = {}, {}, {}

-- The changes of a queue's and task's numbers by state, and the names of their shelves of ended jobs.
local function counter_of(row)
  local of_queue = counters[row[QUEUE]]
  if not of_queue then
    of_queue = {}
    counters[row[QUEUE]] = of_queue
  end
  local counter = of_queue[row[TASK]]
  if not counter then
    counter = { numbers = {}, shelves = {} }
    of_queue[row[TASK]] = counter
  end
  return counter
end

local function count(row, n)
  local numbers, state = counter_of(row).numbers, row[STATE]
  numbers[state] = (numbers[state] or 0) + n
end

local function count_run(row, n)
  local queue, gate = row[QUEUE], row[GATE]
  queue_runs[queue] = (queue_runs[queue] or 0) + n
  if gate ~= '' then gate_runs[gate] = (gate_runs[gate] or 0) + n end
end

-- ── the shelf of each state ──

local function ended_shelf(row)
  local names, state = counter_of(row).shelves, row[STATE]
  local name = names[state]
  if not name then
    name = 'e:' .. state .. '|' .. row[QUEUE] .. '|' .. row[TASK]
    names[state] = name
  end
  return name
end

local function shelve(row, id, there)
  local state = row[STATE]
  if state == READY then
    local stream = stream_of(row)
    zput(stream, id, there and row[RANK])
    local change = stream_change(stream, row[QUEUE])
    if not there then
      change.leaves = true
    elseif not change.first or row[RANK] < change.first then
      change.first = row[RANK]
    end
  elseif state == RUNNING then
    zput('w:' .. row[WORKER], id, there and row[RANK])
    count_run(row, there and 1 or -1)
  elseif state == SCHEDULED then
    zput('due', id, there and row[DUE])
  elseif state == HELD then
    zput('held', id, there and row[CREATED])
  else
    zput(ended_shelf(row), id, there and row[ENDED])
  end
  if row[EXPIRES] > 0 then
    zput('exp', id, there and state <= SCHEDULED and row[EXPIRES])
  end
end

-- Takes a job off its shelf; its fields may be changed then.
local function leave(row)
  if row[STATE] == 0 then return end
  local id = ids[row]
  shelve(row, id, false)
  count(row, -1)
  if row[STATE] == RUNNING and row[ASKED] == 1 then call('SREM', P .. 'asked:' .. row[WORKER], id) end
end

-- Puts a job on the shelf of a state.
local function arrive(row, state)
  row[STATE] = state
  local id = ids[row]
  shelve(row, id, true)
  count(row, 1)
  if row[PRINT] ~= '' then
    zput('fp:' .. row[PRINT], id, row[ENDED] > 0 and row[ENDED] or row[CREATED])
  end
  dirty[row] = true
end
