-- sweep: what nobody asked for but everybody needs, in a bounded step that any worker may do.
-- with: telling limits rows shelves finish spared writing desks
--
-- KEYS    meta
-- ARGV    now, schema, limits, {sweeper or '', limit, {span, how long it is kept}…, rest}
-- returns workers, lost, chores, due, expired, keys, purged, more, then cards and job counts of the deaths found, then
--         id, task and crashes of jobs called dead, then when one that could judge last swept
-- Workers are marked dead before their jobs are taken, so that none of them can renew. What the others would ask the store
-- once a second they are told.

-- first: all workers sweep, and one of them at a time is enough: one that may judge, if this one may. Unless more successes
-- are kept than this one allows.
local sweeper, limit, spans, rest = unpack(cmsgpack.unpack(ARGV[4]))

-- After an outage everybody must have had time to renew before anybody is called dead. The judge's own lease must hold.
local function may_judge()
  local packed = sweeper ~= '' and call('HGET', P .. 'desks', sweeper)
  local desk = packed and unpacked(packed)
  if not desk or desk[D_LOST] == 1 or desk[D_SEEN] + desk[D_LEASE] < now then return false end
  return now - desk[D_UNBROKEN] >= desk[D_LEASE]
end

local judges, found = may_judge(), call('HMGET', KEYS[1], 'swept', 'judged', 'succeeded')
local judged = found[2] or '0'
local last = tonumber(judges and judged or found[1] or 0)
if last <= now and now < last + rest and tonumber(found[3] or 0) <= cmsgpack.unpack(ARGV[3])[L_SUCCESSES] then
  return { 0, 0, 0, 0, 0, 0, 0, 0, {}, {}, judged }
end

-- then:
local left = limit

-- ── lost workers ──

local deaths, poisoned, lost_workers = {}, {}, {}
local all_desks = call('HGETALL', P .. 'desks')
for index = 1, #all_desks, 2 do
  -- A desk that cannot be read is that of a worker that can do nothing more.
  local worker, desk = all_desks[index], unpacked(all_desks[index + 1]) or { [D_LOST] = 1 }
  if judges and desk[D_LOST] == 0 and desk[D_SEEN] + desk[D_LEASE] < now then
    desk[D_LOST] = 1
    call('HSET', P .. 'desks', worker, cmsgpack.pack(desk))
    deaths[#deaths + 1] = { call('HGET', P .. 'cards', worker), call('ZCARD', P .. 'w:' .. worker) }
  end
  if desk[D_LOST] == 1 then lost_workers[#lost_workers + 1] = worker end
end

-- A running job whose worker died: counted, fenced off from its old run, and ready again or dead.
local function take_back(row)
  local alone = row[SUSPECT] == 1 and row[STARTED] > 0
  local to, crashes, losses, suspect, reason = READY, row[CRASHES], row[LOSSES], row[SUSPECT], ''
  if alone then
    crashes, suspect = crashes + 1, 1
    if crashes >= POISON_CRASHES then
      to, reason = DEAD, 'poison'
      poisoned[#poisoned + 1] = { ids[row], row[TASK], crashes }
    end
  else
    losses = losses + 1
    if losses >= SUSPECT_LOSSES then suspect = 1 end
  end
  extras.set_failure(row, '', '')
  extras.remember(row, alone and 'crashed' or 'lost', '')
  row[FENCE] = fences.after(row[FENCE])
  settling.move_on(row, { to, row[ATTEMPT], crashes, losses, suspect, 0, reason }, -1, -1, false, '')
end

local workers, lost = 0, 0
for _, worker in ipairs(lost_workers) do
  if lost < left then
    local running = call('ZRANGE', P .. 'w:' .. worker, 0, left - lost - 1)
    preload(running)
    for _, id in ipairs(running) do
      local row = row_of(id)
      if row then take_back(row) else damage.set_aside(id, 'w:' .. worker, RUNNING) end
    end
    lost = lost + #running
    flush()
  end
  if call('EXISTS', P .. 'w:' .. worker) == 0 then
    desks.forget(worker)
    workers = workers + 1
  end
end
left = left - lost

-- ── chores, due, expired ──

local function first(shelf, most)
  if most <= 0 then return {} end
  return call('ZRANGEBYSCORE', P .. shelf, '-inf', now, 'LIMIT', 0, most)
end

local done = left > 0 and call('EXISTS', P .. 'chores') == 1 and chores.go_on(left) or 0
left = left - done
flush()
local due = left > 0 and first('due', 1)[1] and doors.come_due(left) or 0
left = left - due
flush()

local expired, late = 0, first('exp', left)
preload(late)
for _, id in ipairs(late) do
  local row = row_of(id)
  if not row then
    zput('exp', id, false)
  elseif row[STATE] <= SCHEDULED then -- the end of another one may have been its own: its lane let it in too late
    ending.end_job(row, EXPIRED)
    expired = expired + 1
  end
end
left = left - expired
flush()

-- ── keys, retention ──

local free = first('keys', left)
for _, key in ipairs(free) do
  local id = call('GET', P .. 'k:' .. key)
  local row = id and row_of(id)
  if row and row[KEY] ~= '' then keys.clear(row) else zput('keys', key, false) end
end
left = left - #free
flush()

local purged = 0
for _, shelf in ipairs({ 'purgeok', 'purge' }) do
  local past = first(shelf, left - purged)
  preload(past)
  for _, id in ipairs(past) do
    local row = row_of(id)
    if row then ending.drop(row) else zput(shelf, id, false) end
    purged = purged + 1
  end
end
flush()
-- The oldest successes past their number; one whose key still blocks others is spared.
local succeeded = tonumber(call('HGET', KEYS[1], 'succeeded') or 0)
for _, tasks in pairs(counters) do
  for _, counter in pairs(tasks) do succeeded = succeeded + (counter.numbers[SUCCEEDED] or 0) end
end
local over = math.min(succeeded - limits[L_SUCCESSES], left - purged)
if over > 0 then
  local oldest = call('ZRANGE', P .. 'purgeok', 0, over + BATCH - 1)
  preload(oldest)
  for _, id in ipairs(oldest) do
    local row = row_of(id)
    if over > 0 and row and row[KEY] == '' then
      ending.drop(row)
      purged, over = purged + 1, over - 1
    end
  end
end
left = left - purged

-- ── facts and history ──

local past_facts = call('ZRANGEBYSCORE', P .. 'factx', '-inf', now, 'LIMIT', 0, BATCH)
for _, key in ipairs(past_facts) do facts.drop(key) end
for _, span in ipairs(spans) do
  local old = call('ZRANGEBYSCORE', P .. 'hist:' .. span[1], '-inf', '(' .. number(now - span[2]), 'LIMIT', 0, BATCH)
  for _, start in ipairs(old) do
    call('UNLINK', P .. 'hb:' .. span[1] .. ':' .. start)
    call('ZREM', P .. 'hist:' .. span[1], start)
  end
end

-- ── what dead listeners left ──

local room = call('SRANDMEMBER', P .. 'rooms')
if room then
  local idlers, ears = call('SRANDMEMBER', P .. 'idle:' .. room, 10), {}
  for index, idler in ipairs(idlers) do ears[index] = P .. 'ear:' .. string.match(idler, '^%S*') end
  local heard = #ears > 0 and call('PUBSUB', 'NUMSUB', unpack(ears)) or {}
  for index, idler in ipairs(idlers) do
    if heard[2 * index] == 0 then call('SREM', P .. 'idle:' .. room, idler) end
  end
  if call('EXISTS', P .. 'idle:' .. room) == 0 then call('SREM', P .. 'rooms', room) end
end
for _, queue in ipairs(call('HRANDFIELD', P .. 'news', 10)) do
  if call('SISMEMBER', P .. 'queues', queue) == 0 then call('HDEL', P .. 'news', queue) end
end

if left < limit then ending.call_children() end -- else no job has ended
local more = left <= 0 or #past_facts == BATCH or call('EXISTS', P .. 'chores') == 1
finish()
if not more then
  if judges then judged = number(now) end
  call('HSET', KEYS[1], 'swept', number(now), 'judged', judged)
  call('PUBLISH', P .. 'head', table.concat({ version, judged, call('HGET', KEYS[1], 'succeeded') or 0 }, ' '))
end
return { workers, lost, done, due, expired, #free, purged, more and 1 or 0, deaths, poisoned, judged }
