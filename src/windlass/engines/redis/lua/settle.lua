-- settle: writes the ends of claims, each with its follow-ups, and goes a step on with the chores.
-- with: telling splicing limits rows shelves finish spared writing settling ending
--
-- KEYS    meta
-- ARGV    now, schema, limits, then for each settlement: id, {fence, ran, outcome, transition, keep, keep result, has
--         result, queue, fingerprint, heir, follow-ups}, result, failure, and for each follow-up what insert takes
-- returns for each settlement accepted, already or stale
-- Only the claim that holds the current fence changes anything, and it does so once.

local MOST_TOLD = 4096
local LONG_LIST = 220

-- first: plain successes alone, as nearly all ends are: jobs in their first attempt, without a lane, a flow, a key or anything
-- else that makes a row longer. What is written is what the modules would write. Gives nothing, and has written nothing,
-- where one of them is not plain, or a rule or a chore is to be seen to.
local function settle_plain()
  if call('EXISTS', P .. 'chores', P .. 'rules') > 0 then return end
  local limits, last = cmsgpack.unpack(ARGV[3]), (#ARGV - 3) / 4
  local keep, keep_result = limits[SUCCEEDED + L_KEEP], limits[L_KEEP_RESULT]
  local ends, records, edges, channels, seen = {}, {}, {}, {}, {}
  for index = 1, last do
    local id, settlement = ARGV[4 * index], cmsgpack.unpack(ARGV[4 * index + 1])
    if #settlement ~= S_RAN or settlement[S_RAN] < 0 or seen[id] then return end
    ends[index], seen[id] = settlement, true
    records[index], edges[index], channels[index] = P .. 'j:' .. id, P .. 'edge:' .. id, P .. 'end:' .. id
  end
  local found, written, purges = call('MGET', unpack(records)), {}, {}
  local workers, shelves, runs = {}, {}, {}
  local head, kinds, claims, tail = char(LONG_LIST, 0, EXTRAS, SUCCEEDED), {}, {}, 0
  for index = 1, last do
    local packed, id, settlement = found[index] or '', ARGV[4 * index], ends[index]
    local at = #packed - NUMBERS - tail -- by the length of what the last one had behind them
    local kind, claim = kinds[sub(packed, 1, at)], claims[sub(packed, at + NUMBERS + 1)]
    if not kind or not claim then
      local row = unpacked(packed)
      if not row or #row ~= TICKET or row[STATE] ~= RUNNING or row[ATTEMPT] ~= 1 then return end
      local worker, queue, task = row[WORKER], row[QUEUE], row[TASK]
      if type(worker) ~= 'string' or type(queue) ~= 'string' or type(task) ~= 'string' then return end
      local before = char(LIST + TICKET) .. fields(RUNNING, queue, task)
      at = #before
      if sub(packed, 1, at) ~= before then return end
      tail = #packed - at - NUMBERS
      local shelf = queue .. '|' .. task
      shelves[shelf] = shelves[shelf] or {}
      kind = { queue = queue, ended = shelves[shelf] }
      workers[worker] = workers[worker] or {}
      claim = {
        fence = row[FENCE],
        gone = workers[worker],
        changed = fields(row[PRIORITY], 1, row[FENCE], row[FENCE], row[CLAIMED]),
        added = fields(now, worker, row[TICKET], keep, now + keep, now + keep_result, HAS_RESULT),
      }
      kinds[before], claims[sub(packed, at + NUMBERS + 1)] = kind, claim
    end
    if claim.fence ~= settlement[S_FENCE] or not are_numbers(packed, at) then return end
    local queue, gone, ended = kind.queue, claim.gone, kind.ended
    gone[#gone + 1] = id
    ended[#ended + 1] = now
    ended[#ended + 1] = id
    runs[queue] = (runs[queue] or 0) + 1
    purges[2 * index - 1], purges[2 * index] = now + keep, id
    local started = cmsgpack.pack(now - settlement[S_RAN])
    local record = head .. sub(packed, 3, at + NUMBERS) .. claim.changed .. started .. claim.added
    written[4 * index - 3], written[4 * index - 2] = records[index], record
    written[4 * index - 1], written[4 * index] = P .. 'o:' .. id, ARGV[4 * index + 2]
  end
  if call('EXISTS', unpack(edges)) > 0 then return end
  for worker, gone in pairs(workers) do call('ZREM', P .. 'w:' .. worker, unpack(gone)) end
  for shelf, ended in pairs(shelves) do
    call('ZADD', P .. 'e:' .. SUCCEEDED .. '|' .. shelf, unpack(ended))
    add_to('counts', shelf .. '|' .. RUNNING, -#ended / 2)
    add_to('counts', shelf .. '|' .. SUCCEEDED, #ended / 2)
  end
  call('ZADD', P .. 'purgeok', unpack(purges))
  call('MSET', unpack(written))
  call('HINCRBY', KEYS[1], 'succeeded', last)
  for queue, n in pairs(runs) do add_to('run', 'queue/' .. queue, -n) end
  -- Whoever waits for one gets it with the word of its end, unless it is long or not kept: record, request, result.
  tell_ends(channels, function(index)
    local record, result, request = written[4 * index - 2], written[4 * index], call('GET', P .. 'r:' .. ARGV[4 * index])
    if keep_result <= 0 or #result > MOST_TOLD or not request or #request < 8 then return '' end
    local head, options = struct.unpack('>I4I4', request)
    request = sub(request, 1, 8 + head + options)
    return struct.pack('>I4I4', #record, #request) .. record .. request .. result
  end)
  local verdicts = {}
  for index = 1, last do verdicts[index] = 'accepted' end
  return verdicts
end

local plain = settle_plain()
if plain then return plain end

-- then:
local S_FENCE, S_RAN, S_OUTCOME, S_TRANSITION, S_KEEP, S_KEEP_RESULT = 1, 2, 3, 4, 5, 6
local S_HAS_RESULT, S_QUEUE, S_PRINT, S_BECOME, S_FOLLOW_UPS = 7, 8, 9, 10, 11
-- A plain success with a result says its fence and how long it ran, and no more.
local SUCCESS = { __index = { '0', -1, 'succeeded', { SUCCEEDED, 1, 0, 0, 0, 0, '' }, -1, -1, 1, '', '', '', 0 } }

local settlements, wanted, coming, at = {}, {}, {}, 4
while at <= #ARGV do
  local settlement = setmetatable(cmsgpack.unpack(ARGV[at + 1]), SUCCESS)
  settlements[at] = settlement
  wanted[#wanted + 1] = ARGV[at]
  for follow_up = at + 4, at + 4 * settlement[S_FOLLOW_UPS], 4 do
    coming[ARGV[follow_up]] = intake.head_of(ARGV[follow_up + 1])
  end
  at = at + 4 + 4 * settlement[S_FOLLOW_UPS]
end
preload(wanted)

for start, settlement in pairs(settlements) do
  for follow_up = start + 4, start + 4 * settlement[S_FOLLOW_UPS], 4 do
    local head = coming[ARGV[follow_up]]
    local unknown = head[R_PARENTS] and family.unknown_parent(head, ARGV[follow_up + 2], coming)
    if unknown then return redis.error_reply('WINDLASS PARENT ' .. unknown .. ' ' .. head[R_TASK]) end
  end
end

-- Inserts the follow-ups, those past a step's bound by a chore; the heir comes at once.
local function follow(start, settlement, root)
  local id, become = ARGV[start], settlement[S_BECOME]
  local many = settlement[S_FOLLOW_UPS] > BATCH
  if many then chores.add('insert', id) end
  for at = start + 4, start + 4 * settlement[S_FOLLOW_UPS], 4 do
    local heir = become ~= '' and family.hex(ARGV[at]) == become
    if many then call('RPUSH', P .. 'ci:' .. id, unpack(ARGV, at, at + 3)) end
    if not many or heir then
      intake.insert(ARGV[at], coming[ARGV[at]], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], heir and root or nil)
    end
  end
end

-- An heir that was refused as a duplicate cannot take over, nor one that came with an earlier attempt.
local function heir_of(root, become)
  local heir = become ~= '' and row_of(family.unhex(become))
  return heir and heir[HEIR_OF] ~= '' and family.unhex(heir[HEIR_OF]) == root and become or ''
end

local function apply(row, start, settlement)
  local outcome, failure, has_result = settlement[S_OUTCOME], ARGV[start + 3], settlement[S_HAS_RESULT] == 1
  local heir = ''
  if settlement[S_FOLLOW_UPS] > 0 or settlement[S_BECOME] ~= '' then
    local root = family.root_of(row)
    follow(start, settlement, root)
    heir = heir_of(root, settlement[S_BECOME])
  end
  if row[HEIR] ~= heir then row[HEIR] = heir end
  row[SETTLED] = row[FENCE]
  if failure ~= '' or row[EXTRAS] % 2 == HAS_EXTRA or row[PRINT] ~= '' then
    extras.set_failure(row, failure, settlement[S_PRINT])
  end
  if has_result then
    texts[P .. 'o:' .. ARGV[start]] = ARGV[start + 2]
    if row[EXTRAS] < HAS_RESULT then row[EXTRAS] = row[EXTRAS] + HAS_RESULT end
  elseif row[EXTRAS] >= HAS_RESULT then
    extras.drop_result(row)
  end
  if settlement[S_RAN] >= 0 then row[STARTED] = now - settlement[S_RAN] end
  -- A first-try success is kept as the record alone, and an attempt that never began not at all.
  if outcome ~= '' and not (outcome == 'succeeded' and row[ATTEMPT] == 1) then extras.remember(row, outcome, failure) end
  settling.move_on(
    row, settlement[S_TRANSITION], settlement[S_KEEP], settlement[S_KEEP_RESULT], has_result, settlement[S_QUEUE]
  )
end

local verdicts, at = {}, 4
for index = 1, #wanted do
  local settlement = settlements[at]
  local row = row_of(wanted[index])
  local verdict = settling.verdict(row, settlement[S_FENCE])
  if verdict == 'accepted' then apply(row, at, settlement) end
  verdicts[index] = verdict
  at = at + 4 + 4 * settlement[S_FOLLOW_UPS]
end
ending.call_children()
if call('EXISTS', P .. 'chores') == 1 then chores.go_on(BATCH) end
finish()
return verdicts
