-- Module: how a job becomes ready (the memory engine's admission.py in Lua).
--
-- A job passes four doors and waits at the first that is shut: its flow has started, its parents have closed, it is due,
-- its lane has a place.

function doors.next_order()
  order = math.max(order + 1, now)
  return order
end

function doors.rank_of(due, row)
  return due - row[PRIORITY] * limits[L_AGING]
end

function doors.make_ready(row)
  if row[HOLD] ~= 0 then row[HOLD] = 0 end
  arrive(row, READY)
  woken[row[QUEUE]] = true
end

function doors.hold(row, what)
  row[HOLD] = what
  arrive(row, HELD)
end

-- Puts a job that has left its shelf where it has to wait, or into a stream. Its rank is set here and nowhere else.
function doors.place(row, keep_rank)
  if row[FLOW_ID] ~= '' and not flows.of(row[FLOW_ID]).started then return doors.hold(row, FLOW) end
  if row[EDGES] > 0 then return doors.hold(row, PARENTS) end
  if row[HOLD] ~= 0 then row[HOLD] = 0 end
  if row[DUE] > now then
    if row[SLOT] == 0 then row[RANK] = doors.rank_of(row[DUE], row) end
    arrive(row, SCHEDULED)
    woken[row[QUEUE]] = true
    return
  end
  if row[SLOT] == 0 and not keep_rank then row[RANK] = doors.rank_of(doors.next_order(), row) end
  if row[LANE] ~= '' and row[SLOT] == 0 then return lanes.join(row) end
  doors.make_ready(row)
end

-- A due job keeps the rank it got when it was scheduled.
function doors.come_due(limit)
  local due = call('ZRANGEBYSCORE', P .. 'due', '-inf', now, 'LIMIT', 0, limit)
  preload(due)
  for _, id in ipairs(due) do
    local row = row_of(id)
    if row then
      leave(row)
      if row[LANE] ~= '' and row[SLOT] == 0 then lanes.join(row) else doors.make_ready(row) end
    else
      damage.set_aside(id, 'due', SCHEDULED)
    end
  end
  return #due
end
