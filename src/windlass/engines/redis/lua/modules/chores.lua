-- Module: what one step sets free may be more than a step may touch; the rest is written down as a chore, and the next steps
-- go on with it.

function chores.add(...)
  call('RPUSH', P .. 'chores', cmsgpack.pack({ ... }))
end

-- Goes on inserting the follow-ups of a settle that brought more than a step may touch.
local function insert_on(key, limit)
  local done = 0
  while done < limit do
    local entry = call('LPOP', P .. 'ci:' .. key, 4)
    if not entry then return done, true end
    local id, request, past, result = unpack(entry)
    intake.insert(id, intake.head_of(request), request, past, result)
    done = done + 1
  end
  return done, call('EXISTS', P .. 'ci:' .. key) == 0
end

-- Goes on with the oldest chores until about `limit` jobs were touched; how many were.
function chores.go_on(limit)
  local done = 0
  while done < limit do
    ending.call_children()
    local packed = call('LINDEX', P .. 'chores', 0)
    if not packed then return done end
    local kind, key, note = unpack(unpacked(packed) or {})
    local n, finished, from = 0, true, nil
    local left = math.min(BATCH, limit - done)
    if not key then
      n = 0  -- it cannot be read, and nobody can do it
    elseif kind == 'lane' then
      n = lanes.admit(key)
    elseif kind == 'close' then
      n, finished = family.close(key, note, left)
    elseif kind == 'insert' then
      n, finished = insert_on(key, left)
    else
      n, finished, from = flows.walk(kind, key, note, left)
    end
    done = done + math.max(1, n)
    if finished then
      call('LPOP', P .. 'chores')
    elseif from then
      call('LSET', P .. 'chores', 0, cmsgpack.pack({ kind, key, from }))
    end
  end
  return done
end
