-- claim: takes ready jobs for a worker, in the order of rank, through the gates that are open.
-- with: telling splicing limits rows shelves finish spared writing desks fences
--
-- KEYS    meta
-- ARGV    now, schema, limits, {worker, ticket, limit, suspects, queues or false, tasks or false, free, total}
-- returns how long to wait (-1: until somebody signals), the store's version, then id, record, request of each claim
-- A job is claimed by one worker at a time, under a fence greater than all before. An empty claim leaves no trace.

-- first: plain jobs that were never claimed, where all that is ready stands in one plain stream: the row of such a job has
-- nothing behind its priority. What is written is what the modules would write. Gives nothing, and has written nothing, where
-- anything else is to be seen to, such as a rule of any gate.
local worker, ticket, limit, suspects, queues, tasks, free, total = unpack(cmsgpack.unpack(ARGV[4]))

-- The one queue with ready jobs, if all of them are plain.
local function plain_queue()
  local found
  for _, queue in ipairs(queues or call('SMEMBERS', P .. 'queues')) do
    local streams = call('ZRANGE', P .. 'h:' .. queue, 0, 1)
    if #streams > 0 then
      if found or #streams > 1 or streams[1] ~= queue .. '||||0' then return nil end
      found = queue
    end
  end
  return found
end

local function claim_plain()
  local packed = suspects == 0 and call('HGET', P .. 'desks', worker)
  local desk = packed and unpacked(packed)
  if not desk or desk[D_LOST] == 1 or desk[D_SEEN] + desk[D_LEASE] < now or ticket <= desk[D_TICKET] then return end
  local queue = plain_queue()
  local due = tonumber(call('ZRANGE', P .. 'due', 0, 0, 'WITHSCORES')[2])
  if not queue or (due and due <= now) or call('EXISTS', P .. 'rules') == 1 then return end
  local stream = 's:' .. queue .. '||||0'
  local ranked, wanted, counts = call('ZRANGE', P .. stream, 0, limit - 1, 'WITHSCORES'), {}, {}
  for _, task in ipairs(tasks or {}) do wanted[task] = true end
  local taken, rows, requests, running = {}, {}, {}, {}
  if #ranked == 0 then return end
  for index = 1, #ranked / 2 do
    local id = ranked[2 * index - 1]
    taken[index], rows[index], requests[index] = id, P .. 'j:' .. id, P .. 'r:' .. id
    running[2 * index - 1], running[2 * index] = ranked[2 * index], id
  end
  local found, fence = call('MGET', unpack(rows)), number(now)
  local answer, written = { due and due - now or -1, version }, {}
  local head, shapes = char(LIST + TICKET, RUNNING), {}
  for index = 1, #taken do
    local packed = found[index] or ''
    local tail = byte(packed) == LIST + PRIORITY and 1 or 0 -- a priority takes a byte
    local at = #packed - NUMBERS - tail
    local before = sub(packed, 1, at)
    local shape = shapes[before]
    if not shape then
      local row = unpacked(packed)
      if not row or #row < CREATED or #row > PRIORITY or row[STATE] ~= READY or row[QUEUE] ~= queue then return end
      local task = row[TASK]
      if type(task) ~= 'string' or before ~= char(LIST + #row) .. fields(READY, queue, task) then return end
      if not counts[task] then
        if tasks and not wanted[task] then return end
        if desk[D_ALL] ~= 1 and call('SISMEMBER', P .. 'tk:' .. worker, task) == 0 then return end
      end
      local added = (tail == 0 and fields(0) or '') .. fields(1, fence, '0', now, 0, 0, worker, ticket)
      shape = { task = task, added = added }
      shapes[before] = shape
    end
    if not are_numbers(packed, at) or (tail == 1 and byte(packed, -1) > 127) then return end
    counts[shape.task] = (counts[shape.task] or 0) + 1
    local claimed = head .. sub(packed, 3) .. shape.added
    written[2 * index - 1], written[2 * index] = rows[index], claimed
    answer[3 * index], answer[3 * index + 1] = taken[index], claimed
  end
  call('ZREM', P .. stream, unpack(taken))
  local first = call('ZRANGE', P .. stream, 0, 0, 'WITHSCORES')[2]
  if first then
    call('ZADD', P .. 'h:' .. queue, first, sub(stream, 3))
  else
    call('DEL', P .. 'h:' .. queue)
    call('SREM', P .. 'queues', queue)
    call('HDEL', P .. 'news', queue)
  end
  call('ZADD', P .. 'w:' .. worker, unpack(running))
  call('MSET', unpack(written))
  for task, n in pairs(counts) do
    add_to('counts', queue .. '|' .. task .. '|' .. READY, -n)
    add_to('counts', queue .. '|' .. task .. '|' .. RUNNING, n)
  end
  add_to('run', 'queue/' .. queue, #taken)
  desk[D_TICKET] = ticket
  call('HSET', P .. 'desks', worker, cmsgpack.pack(desk))
  requests = call('MGET', unpack(requests))
  for index = 1, #taken do answer[3 * index + 2] = requests[index] end
  return answer
end

local plain = claim_plain()
if plain then return plain end

-- then:
-- ── the worker's card ──

local desk = desks.of(worker)
if not desk or desk[D_LOST] == 1 then return redis.error_reply('WINDLASS GONE ' .. worker) end
if desk[D_SEEN] + desk[D_LEASE] < now then return redis.error_reply('WINDLASS LEASE ' .. worker) end

local function show(wait, claimed)
  local answer, requests = { wait, version }, {}
  for index = 1, #claimed do requests[index] = P .. 'r:' .. ids[claimed[index]] end
  requests = #claimed > 0 and call('MGET', unpack(requests))
  for index = 1, #claimed do
    local row = claimed[index]
    answer[#answer + 1] = ids[row]
    answer[#answer + 1] = dirty[row] or pack(row)
    answer[#answer + 1] = requests[index]
  end
  return answer
end

if ticket == desk[D_TICKET] then
  local held = {}
  local running = call('ZRANGE', P .. 'w:' .. worker, 0, -1)
  preload(running)
  for _, id in ipairs(running) do
    local row = row_of(id)
    if row and row[TICKET] == ticket then held[#held + 1] = row end
  end
  return show(-1, held)
end
if ticket < desk[D_TICKET] then
  return redis.error_reply('WINDLASS TICKET ' .. number(desk[D_TICKET]))
end

local chosen, known = tasks and {}, {}
for _, task in ipairs(tasks or {}) do chosen[task] = true end

-- Whether the worker wants a task, of those its card lists.
local function is_wanted(task)
  local is = known[task]
  if is == nil then
    is = not (chosen and not chosen[task]) and (desk[D_ALL] == 1 or call('SISMEMBER', P .. 'tk:' .. worker, task) == 1)
    known[task] = is
  end
  return is
end

-- ── what may be spent ──

for name, amount in pairs(free) do total[name] = math.max(total[name] or 0, amount) end

local has_rules = call('EXISTS', P .. 'rules') == 1
local places, rules, spent = {}, {}, {}

local function is_open(candidate)
  if not has_rules then return true end
  for _, gate in ipairs(candidate.gates) do
    if places[gate] == nil then
      local rule, bound = gates.look(gate)
      places[gate], rules[gate] = bound or math.huge, rule
    end
    if places[gate] <= 0 then return false end
  end
  return true
end

-- ── the heads of streams ──

local cut, aside = false, 0

-- The next job of a stream that this worker can run. What has expired ends here; what it does not want or has no room
-- for is parked: moved, once, to a stream of its own task and needs, where it stands in nobody's way.
local function next_head(candidate)
  while true do
    local found = candidate.found
    if candidate.at >= #found then
      if candidate.done then return nil end
      local size = limit + 8
      found = call('ZRANGE', P .. candidate.stream, candidate.from, candidate.from + size - 1)
      preload(found)
      candidate.found, candidate.at, candidate.from = found, 0, candidate.from + size
      candidate.done = #found < size
      if #found == 0 then return nil end
    end
    if aside >= BATCH then
      cut = true
      return nil
    end
    candidate.at = candidate.at + 1
    local row = rows[found[candidate.at]]
    if not row or row[QUEUE] ~= candidate.queue then
      cut = damage.set_aside(found[candidate.at], candidate.stream, READY) or cut
      stream_change(candidate.stream, candidate.queue).leaves = true
      aside = aside + 1
    elseif row[EXPIRES] > 0 and row[EXPIRES] <= now then
      ending.end_job(row, EXPIRED)
      aside = aside + 1
      cut = true
    elseif not is_wanted(row[TASK]) or (row[NEEDS] ~= '' and not needs.fit(needs.read(row[NEEDS]), total)) then
      leave(row)
      row[PARKED] = 1
      doors.make_ready(row)
      aside = aside + 1
    else
      return row
    end
  end
end

local function next_due()
  return tonumber(call('ZRANGE', P .. 'due', 0, 0, 'WITHSCORES')[2])
end

local due = next_due()
if due and due <= now then
  doors.come_due(BATCH)
  flush()
  due = next_due()
end

local candidates = {}
for _, queue in ipairs(queues or call('SMEMBERS', P .. 'queues')) do
  local heads = call('ZRANGE', P .. 'h:' .. queue, 0, -1, 'WITHSCORES')
  for index = 1, #heads, 2 do
    local gate, class, task, suspect = string.match(heads[index], '^[^|]*|([^|]*)|([^|]*)|([^|]*)|(.)$')
    if tonumber(suspect) == suspects and (task == '' or is_wanted(task)) then
      local candidate = { queue = queue, stream = 's:' .. heads[index], rank = tonumber(heads[index + 1]), found = {}, at = 0, from = 0 }
      candidate.gates = gate == '' and { 'queue/' .. queue } or { 'queue/' .. queue, 'gate/' .. gate }
      if class ~= '' then candidate.least = task == '' and needs.least_of(class) or needs.read(class) end
      candidates[#candidates + 1] = candidate
    end
  end
end

-- ── picking (core/pick.py) ──

local heads, starving = {}, false
for _, candidate in ipairs(candidates) do
  if not candidate.least then
    if is_open(candidate) then heads[#heads + 1] = candidate end
  elseif needs.fit(candidate.least, total) then
    local row = next_head(candidate)
    if row then
      candidate.row, candidate.rank, candidate.needs = row, row[RANK], needs.read(row[NEEDS])
      if needs.fit(candidate.needs, free) then
        heads[#heads + 1] = candidate
      elseif is_open(candidate) and row[DUE] < now - 9 * limits[L_AGING] then
        starving = true
      end
    end
  end
end
-- A starving job makes its worker take no other job with needs.
if starving then
  local rest = {}
  for _, candidate in ipairs(heads) do
    if not candidate.needs then rest[#rest + 1] = candidate end
  end
  heads = rest
end
table.sort(heads, function(one, other) return one.rank > other.rank end)

-- The smallest rank is last; one that has moved on is put back where it belongs.
local function put_back(candidate)
  local low, high = 1, #heads + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    if heads[middle].rank > candidate.rank then low = middle + 1 else high = middle end
  end
  table.insert(heads, low, candidate)
end

local taken = {}

-- Counts a job that is taken against what its stream's jobs may use.
local function spend(candidate)
  if has_rules then
    for _, gate in ipairs(candidate.gates) do
      spent[gate] = (spent[gate] or 0) + 1
      places[gate] = places[gate] - 1
    end
  end
  if candidate.needs then
    for name, amount in pairs(candidate.needs) do free[name] = free[name] - amount end
  end
end

while #heads > 0 and #taken < limit do
  local candidate = table.remove(heads)
  local bound = heads[#heads] and heads[#heads].rank or math.huge
  -- As long as it is the first of all, it goes on.
  while candidate and #taken < limit and is_open(candidate) do
    if candidate.needs and not needs.fit(candidate.needs, free) then break end
    local row = candidate.row or next_head(candidate)
    if not row then break end
    if row[RANK] > candidate.rank and row[RANK] >= bound then
      candidate.row, candidate.rank = row, row[RANK]
      put_back(candidate)
      candidate = nil
    else
      taken[#taken + 1] = row
      spend(candidate)
      row = #taken < limit and next_head(candidate) or nil
      candidate.row = row
      if not row then break end
      candidate.rank = row[RANK]
      if candidate.needs then candidate.needs = needs.read(row[NEEDS]) end
      if row[RANK] >= bound then
        put_back(candidate)
        candidate = nil
      end
    end
  end
end

for index = 1, #taken do
  local row = taken[index]
  leave(row)
  row[FENCE] = fences.after(row[FENCE])
  row[CLAIMED], row[STARTED], row[WORKER], row[TICKET] = now, 0, worker, ticket
  if row[UNTIL] == UNTIL_START and row[KEY] ~= '' then keys.clear(row) end
  arrive(row, RUNNING)
end
for gate, n in pairs(spent) do
  if rules[gate] then gates.spend(gate, rules[gate], n) end
end
if #taken > 0 then
  desk[D_TICKET] = ticket
  call('HSET', P .. 'desks', worker, cmsgpack.pack(desk))
end
finish()

-- ── when to look again ──

local at = cut and now or nil
if has_rules and not cut then
  for _, candidate in ipairs(candidates) do
    if call('EXISTS', P .. candidate.stream) == 1 then
      for _, gate in ipairs(candidate.gates) do
        local _, bound, again = gates.look(gate)
        if bound == 0 and again and again > now and (not at or again < at) then at = again end
      end
    end
  end
end
if due and (not at or due < at) then at = due end
return show(at and math.max(0, at - now) or -1, taken)
