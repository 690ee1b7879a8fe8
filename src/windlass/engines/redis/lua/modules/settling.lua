-- Module: moving a running job on, by a settlement or by a sweep (the memory engine's settle.py in Lua).
--
-- A transition is {to, attempt, crashes, losses, suspect, delay, reason}.

local T_TO, T_ATTEMPT, T_CRASHES, T_LOSSES, T_SUSPECT, T_DELAY, T_REASON = 1, 2, 3, 4, 5, 6, 7
local has_rules = call('EXISTS', P .. 'rules') == 1

-- A job whose cancel was asked for while it ran does not run again.
local function heed_cancel(row, transition)
  local to, reason = transition[T_TO], transition[T_REASON]
  if to <= SCHEDULED then
    to, reason = CANCELLED, row[REASON]
  elseif to == CANCELLED and (reason == '' or reason == 'cancelled') then
    reason = row[REASON]
  end
  return { to, transition[T_ATTEMPT], transition[T_CRASHES], transition[T_LOSSES], transition[T_SUSPECT], 0, reason }
end

-- A place at a gate with a bound is free again: whoever waits behind it looks.
local function free_gate(row)
  local queue, gate = row[QUEUE], row[GATE]
  if call('HEXISTS', P .. 'rules', 'queue/' .. queue) == 1 and call('EXISTS', P .. 'h:' .. queue) == 1 then
    woken[queue] = true
  end
  if gate ~= '' and call('HEXISTS', P .. 'rules', 'gate/' .. gate) == 1 then
    for _, stream in ipairs(call('SRANDMEMBER', P .. 'behind:' .. gate, BATCH)) do
      woken[string.match(stream, '^[^|]*')] = true
    end
  end
end

-- Moves a running job on: to its end, or to its next run at the old or a new rank.
function settling.move_on(row, transition, keep, keep_result, has_result, queue)
  if row[ASKED] == 1 then transition = heed_cancel(row, transition) end
  local to = transition[T_TO]
  leave(row)
  if has_rules then free_gate(row) end
  if to ~= SUCCEEDED then
    -- A success leaves the counts as they are: they say what it took to get there.
    row[ATTEMPT], row[CRASHES], row[LOSSES] = transition[T_ATTEMPT], transition[T_CRASHES], transition[T_LOSSES]
  end
  if row[SUSPECT] ~= transition[T_SUSPECT] then row[SUSPECT] = transition[T_SUSPECT] end
  if row[REASON] ~= transition[T_REASON] then row[REASON] = transition[T_REASON] end
  row[STATE] = 0
  if to >= SUCCEEDED then
    if has_result then row[RESULT_UNTIL] = now + (keep_result >= 0 and keep_result or limits[L_KEEP_RESULT]) end
    if queue ~= '' and to == DEAD then row[QUEUE] = queue end
    return ending.end_job(row, to, transition[T_REASON], keep >= 0 and keep or nil)
  end
  if to == SCHEDULED then
    row[DUE] = now + transition[T_DELAY]
    if row[SLOT] == 0 then row[RANK] = doors.rank_of(row[DUE], row) end
  else
    row[DUE] = math.min(row[DUE], now)
  end
  doors.place(row, true)
end

-- Whether a write that carries this fence may touch the record.
function settling.verdict(row, fence)
  if not row then return 'stale' end
  if fence ~= '0' and row[SETTLED] == fence then return 'already' end
  return row[STATE] == RUNNING and row[FENCE] == fence and 'accepted' or 'stale'
end
