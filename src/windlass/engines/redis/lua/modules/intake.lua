-- Module: how jobs come in.

-- The row of a job that comes, with what its request says of it.
function intake.new_row(id, head)
  local row = setmetatable({ 0, head[R_QUEUE], head[R_TASK], 0, 0, now, head[R_PRIORITY] }, MISSING)
  rows[id], ids[row] = row, id
  if #head > R_AT then
    row[EXPIRES], row[LANE], row[LANE_LIMIT] = head[R_EXPIRES], head[R_LANE], head[R_LANE_LIMIT]
    row[UNTIL], row[GATE], row[NEEDS] = head[R_UNTIL], head[R_GATE], head[R_NEEDS]
    row[FLOW_ID] = head[R_FLOW]
  end
  return row
end

function intake.head_of(request)
  return cmsgpack.unpack(sub(request, 9, 8 + struct.unpack('>I4', request)))
end

-- Takes a job in, unless it is here already or its unique key is held: then gives the id of the one that is there.
function intake.insert(id, head, request, past, result, heir_of)
  if row_of(id) then return id end
  past = past ~= '' and cmsgpack.unpack(past)
  local until_ = head[R_UNTIL] or 0
  -- An imported job whose key was cleared takes it no more: it neither blocks nor is blocked.
  local key = until_ > 0 and not (past and past[14] == 0) and head[R_KEY]
  if key then
    local there = keys.holder(key)
    if there then
      family.stand_in(id, there)
      return ids[there]
    end
  end
  local row = intake.new_row(id, head)
  local at = head[R_AT] or -1
  row[DUE] = at >= 0 and at or now + head[R_DELAY]
  if heir_of then row[HEIR_OF] = family.hex(heir_of) end
  texts[P .. 'r:' .. id] = request
  if key then keys.take(row, key, until_ == UNTIL_TIME and now + head[R_PERIOD] or 0) end
  if row[LANE] ~= '' then zput('la:' .. row[LANE], id, now) end
  if row[FLOW_ID] ~= '' then flows.add_node(row[FLOW_ID], id) end
  if past then
    imports.bring_back(row, past, result, head[R_PARENTS])
  elseif not head[R_PARENTS] or family.join(row, head[R_PARENTS]) then
    doors.place(row)
  else
    ending.end_job(row, CANCELLED, 'parent')
  end
  return nil
end
