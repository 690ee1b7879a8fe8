-- settle: writes the ends of claims, each with its follow-ups, and goes a step on with the chores.
-- with: store spared writing admission settling
--
-- KEYS    meta
-- ARGV    now, schema, limits, then for each settlement: id, {fence, outcome, transition, ran, keep, keep result, has
--         result, queue, fingerprint, heir, follow-ups}, result, failure, and for each follow-up what insert takes
-- returns for each settlement accepted, already or stale
-- Only the claim that holds the current fence changes anything, and it does so once.

local S_FENCE, S_OUTCOME, S_TRANSITION, S_RAN, S_KEEP, S_KEEP_RESULT = 1, 2, 3, 4, 5, 6
local S_HAS_RESULT, S_QUEUE, S_PRINT, S_BECOME, S_FOLLOW_UPS = 7, 8, 9, 10, 11

local settlements, wanted, at = {}, {}, 4
while at <= #ARGV do
  local settlement = { id = ARGV[at], what = cmsgpack.unpack(ARGV[at + 1]), result = ARGV[at + 2], failure = ARGV[at + 3] }
  settlement.from = at + 4
  settlements[#settlements + 1] = settlement
  wanted[#wanted + 1] = settlement.id
  at = at + 4 + 4 * settlement.what[S_FOLLOW_UPS]
end
preload(wanted)

local coming = {}
for _, settlement in ipairs(settlements) do
  for index = 0, settlement.what[S_FOLLOW_UPS] - 1 do coming[ARGV[settlement.from + 4 * index]] = true end
end
for _, settlement in ipairs(settlements) do
  for index = 0, settlement.what[S_FOLLOW_UPS] - 1 do
    local start = settlement.from + 4 * index
    local unknown, task = unknown_parent(ARGV[start + 1], ARGV[start + 2], coming)
    if unknown then return redis.error_reply('WINDLASS PARENT ' .. unknown .. ' ' .. task) end
  end
end

-- Inserts the follow-ups, those past a step's bound by a chore; the heir comes at once.
local function follow(settlement, root)
  local n, become = settlement.what[S_FOLLOW_UPS], settlement.what[S_BECOME]
  local many = n > BATCH
  if many then chore('insert', settlement.id) end
  for index = 0, n - 1 do
    local start = settlement.from + 4 * index
    local id = ARGV[start]
    local heir = become ~= '' and hex(id) == become
    if many then call('RPUSH', P .. 'ci:' .. settlement.id, id, ARGV[start + 1], ARGV[start + 2], ARGV[start + 3]) end
    if not many or heir then insert(id, ARGV[start + 1], ARGV[start + 2], ARGV[start + 3], heir and root or nil) end
  end
end

local function apply(row, settlement)
  local what = settlement.what
  local root = root_of(row)
  follow(settlement, root)
  row[SETTLED] = row[FENCE]
  -- An heir that was refused as a duplicate cannot take over, nor one that came with an earlier attempt.
  row[HEIR] = ''
  if what[S_BECOME] ~= '' then
    local heir = load(unhex(what[S_BECOME]))
    if heir and heir[HEIR_OF] ~= '' and unhex(heir[HEIR_OF]) == root then row[HEIR] = what[S_BECOME] end
  end
  local has_result = what[S_HAS_RESULT] == 1
  set_failure(row, settlement.failure, what[S_PRINT])
  set_extra(row, 'result', has_result and '+' .. settlement.result)
  if what[S_RAN] >= 0 then row[STARTED] = now - what[S_RAN] end
  remember(row, what[S_OUTCOME], settlement.failure)
  move_on(row, what[S_TRANSITION], what[S_KEEP], what[S_KEEP_RESULT], has_result, what[S_QUEUE])
end

local verdicts = {}
for index, settlement in ipairs(settlements) do
  local row = load(settlement.id)
  local verdict = fenced(row, settlement.what[S_FENCE])
  if verdict == 'accepted' then apply(row, settlement) end
  verdicts[index] = verdict
end
do_chores(BATCH)
finish()
return verdicts
