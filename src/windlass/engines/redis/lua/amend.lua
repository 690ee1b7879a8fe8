-- amend: changes jobs that may be changed; says of the others why not.
-- with: telling limits rows shelves finish spared writing doors ending chores
--
-- KEYS    meta
-- ARGV    now, schema, limits, {change, states in which it may be made, reason}, ids…
-- returns for each job: 0 changed, {state} refused by its state (0: no such job), or the id of the holder of its key
-- A running job is only asked to stop.

local change, may, reason = unpack(cmsgpack.unpack(ARGV[4]))
local allowed = {}
for _, state in ipairs(may) do allowed[state] = true end

local function cancel(row)
  if row[STATE] ~= RUNNING then
    ending.end_job(row, CANCELLED, reason ~= '' and reason or 'cancelled')
    return
  end
  local kept = row[ASKED] == 1 and row[REASON] or ''
  row[REASON] = reason ~= '' and reason or kept ~= '' and kept or 'cancelled'
  row[ASKED] = 1
  call('SADD', P .. 'asked:' .. row[WORKER], ids[row])
  asked[row[WORKER]] = true
  dirty[row] = true
end

local function retry(row)
  local id = ids[row]
  local head = extras.head_of(id)
  if not head then return { 0 } end
  if row[UNTIL] > 0 then
    local there = keys.holder(head[R_KEY])
    if there and there ~= row then return ids[there] end
  end
  leave(row)
  zput('purge', id, false)
  extras.set_failure(row, '', '')
  if row[EXTRAS] >= HAS_RESULT then extras.drop_result(row) end
  row[ATTEMPT], row[CRASHES], row[LOSSES], row[SUSPECT] = 1, 0, 0, 0
  row[ENDED], row[PURGE], row[EXPIRES], row[STARTED], row[ASKED] = 0, 0, 0, 0, 0
  row[REASON], row[HEIR], row[DUE], row[QUEUE] = '', '', now, head[R_QUEUE]
  if row[FLOW_ID] ~= '' then flows.count_open(row[FLOW_ID], 1) end
  doors.place(row)
  return nil
end

local function delete(row)
  if row[STATE] <= SCHEDULED then ending.end_job(row, CANCELLED) end
  ending.drop(row)
end

local wanted = {}
for index = 5, #ARGV do wanted[index - 4] = ARGV[index] end
preload(wanted)

local answers = {}
for index, id in ipairs(wanted) do
  local row = row_of(id)
  local state = row and row[STATE] or 0
  answers[index] = 0
  if not allowed[state] then
    answers[index] = { state }
  elseif change == 'cancel' then
    cancel(row)
  elseif change == 'retry' then
    answers[index] = retry(row) or 0
  elseif change == 'run_now' then
    leave(row)
    row[DUE] = now
    doors.place(row)
  else
    delete(row)
  end
end
chores.go_on(BATCH)
finish()
return answers
