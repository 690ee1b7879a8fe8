-- claim: takes ready jobs for a worker, in the order of rank, through the gates that are open.
-- with: store spared writing admission gates desks
--
-- KEYS    meta
-- ARGV    now, schema, limits, {worker, ticket, limit, suspects, queues or false, tasks or false, free, total}
-- returns how long to wait (-1: until somebody signals), the store's version, then id, record, request of each claim
-- A job is claimed by one worker at a time, under a fence greater than all before. An empty claim leaves no trace.

local worker, ticket, limit, suspects, queues, tasks, free, total = unpack(cmsgpack.unpack(ARGV[4]))

-- ── the worker's card ──

local desk = call('HGET', P .. 'desks', worker)
desk = desk and unpacked(desk)
if not desk or desk[D_LOST] == 1 then return redis.error_reply('WINDLASS GONE ' .. worker) end
if desk[D_SEEN] + desk[D_LEASE] < now then return redis.error_reply('WINDLASS LEASE ' .. worker) end

local function show(wait, claimed)
  local answer = { wait, version }
  local keys = {}
  for index, row in ipairs(claimed) do keys[index] = P .. 'r:' .. ids[row] end
  local requests = #keys > 0 and call('MGET', unpack(keys)) or {}
  for index, row in ipairs(claimed) do
    answer[#answer + 1] = ids[row]
    answer[#answer + 1] = pack(row)
    answer[#answer + 1] = requests[index]
  end
  return answer
end

if ticket == desk[D_TICKET] then
  local held = {}
  local running = call('ZRANGE', P .. 'w:' .. worker, 0, -1)
  preload(running)
  for _, id in ipairs(running) do
    local row = load(id)
    if row and row[TICKET] == ticket then held[#held + 1] = row end
  end
  return show(-1, held)
end
if ticket < desk[D_TICKET] then
  return redis.error_reply('WINDLASS TICKET ' .. number(desk[D_TICKET]))
end

local chosen = tasks and {}
if tasks then
  for _, task in ipairs(tasks) do chosen[task] = true end
end
local known = {}

-- Whether the worker wants a task, of those its card lists.
local function wanted(task)
  if chosen and not chosen[task] then return false end
  if desk[D_ALL] == 1 then return true end
  if known[task] == nil then known[task] = call('SISMEMBER', P .. 'tk:' .. worker, task) == 1 end
  return known[task]
end

-- ── what may be spent ──

for name, amount in pairs(free) do total[name] = math.max(total[name] or 0, amount) end

local function needs_of(text)
  local needs = {}
  for name, amount in string.gmatch(text, '([^=,]+)=([^,]+)') do needs[name] = tonumber(amount) end
  return needs
end

-- The least that a job of a resource class needs.
local function least_of(text)
  local needs = needs_of(text)
  for name, amount in pairs(needs) do
    local _, bits = math.frexp(amount - 1)
    needs[name] = amount - 2 ^ math.max(0, bits - 3) + 1
  end
  return needs
end

local function fits(needs, room)
  for name, amount in pairs(needs) do
    if (room[name] or 0) < amount then return false end
  end
  return true
end

local has_rules = call('EXISTS', P .. 'rules') == 1
local places, rules, spent = {}, {}, {}

local function open_gate(gate)
  if places[gate] == nil then
    local rule = rule_of(gate)
    places[gate] = math.huge
    if rule then
      rules[gate] = rule
      local running = tonumber(call('HGET', P .. 'run', gate) or 0)
      places[gate] = opening(rule, tonumber(call('HGET', P .. 'tat', gate) or 0), running) or math.huge
    end
  end
  return places[gate] > 0
end

local function is_open(candidate)
  if not has_rules then return true end
  for _, gate in ipairs(candidate.gates) do
    if not open_gate(gate) then return false end
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
      found = call('ZRANGE', P .. 's:' .. candidate.stream, candidate.from, candidate.from + size - 1)
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
    local row = load(found[candidate.at])
    if not row then
      -- Its record is gone, as after a failover that lost it, or cannot be read.
      cut = set_aside(found[candidate.at], 's:' .. candidate.stream, READY) or cut
      touched[candidate.stream] = candidate.queue
      aside = aside + 1
    elseif row[EXPIRES] > 0 and row[EXPIRES] <= now then
      end_job(row, EXPIRED)
      aside = aside + 1
      cut = true
    elseif not wanted(row[TASK]) or (row[NEEDS] ~= '' and not fits(needs_of(row[NEEDS]), total)) then
      leave(row)
      row[PARKED] = 1
      make_ready(row)
      aside = aside + 1
    else
      return row
    end
  end
end

local moved = come_due(BATCH)
if moved > 0 then flush() end

local candidates = {}
for _, queue in ipairs(queues or call('SMEMBERS', P .. 'queues')) do
  local heads = call('ZRANGE', P .. 'h:' .. queue, 0, -1, 'WITHSCORES')
  for index = 1, #heads, 2 do
    local stream = heads[index]
    local gate, class, task, suspect = string.match(stream, '^[^|]*|([^|]*)|([^|]*)|([^|]*)|(.)$')
    if tonumber(suspect) == suspects and (task == '' or wanted(task)) then
      local candidate = { queue = queue, stream = stream, rank = tonumber(heads[index + 1]), found = {}, at = 0, from = 0 }
      candidate.gates = gate == '' and { 'queue/' .. queue } or { 'queue/' .. queue, 'gate/' .. gate }
      if class ~= '' then candidate.least = task == '' and least_of(class) or needs_of(class) end
      candidates[#candidates + 1] = candidate
    end
  end
end

-- ── picking (core/pick.py) ──

local heads, starving = {}, false
for _, candidate in ipairs(candidates) do
  if not candidate.least then
    if is_open(candidate) then heads[#heads + 1] = candidate end
  elseif fits(candidate.least, total) then
    local row = next_head(candidate)
    if row then
      candidate.row, candidate.rank, candidate.needs = row, row[RANK], needs_of(row[NEEDS])
      if fits(candidate.needs, free) then
        heads[#heads + 1] = candidate
      elseif is_open(candidate) and row[DUE] < now - 9 * AGING then
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
while #heads > 0 and #taken < limit do
  local candidate = table.remove(heads)
  if is_open(candidate) and not (candidate.needs and not fits(candidate.needs, free)) then
    local row = candidate.row or next_head(candidate)
    if row and not candidate.row and row[RANK] > candidate.rank then
      candidate.row, candidate.rank = row, row[RANK]
      put_back(candidate)
    elseif row then
      taken[#taken + 1] = row
      for _, gate in ipairs(candidate.gates) do
        spent[gate] = (spent[gate] or 0) + 1
        if places[gate] then places[gate] = places[gate] - 1 end
      end
      if candidate.needs then
        for name, amount in pairs(candidate.needs) do free[name] = free[name] - amount end
      end
      row = next_head(candidate)
      if row then
        candidate.row, candidate.rank = row, row[RANK]
        if candidate.needs then candidate.needs = needs_of(row[NEEDS]) end
        put_back(candidate)
      end
    end
  end
end

for _, row in ipairs(taken) do
  leave(row)
  row[FENCE] = next_fence(row[FENCE])
  row[WORKER], row[TICKET], row[CLAIMED], row[STARTED] = worker, ticket, now, 0
  if row[UNTIL] == UNTIL_START then clear_key(row) end
  arrive(row, RUNNING)
end
for gate, n in pairs(spent) do
  local rule = rules[gate]
  if rule and rule[RATE_COUNT] > 0 then
    local tat = tonumber(call('HGET', P .. 'tat', gate) or 0)
    call('HSET', P .. 'tat', gate, number(advance(rule, math.max(tat, now), n)))
  end
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
    if call('EXISTS', P .. 's:' .. candidate.stream) == 1 then
      for _, gate in ipairs(candidate.gates) do
        local rule = rules[gate]
        if rule then
          local running = tonumber(call('HGET', P .. 'run', gate) or 0)
          local bound, again = opening(rule, tonumber(call('HGET', P .. 'tat', gate) or 0), running)
          if bound == 0 and again and again > now and (not at or again < at) then at = again end
        end
      end
    end
  end
end
local due = call('ZRANGE', P .. 'due', 0, 0, 'WITHSCORES')[2]
if due and (not at or tonumber(due) < at) then at = tonumber(due) end
return show(at and math.max(0, at - now) or -1, taken)
