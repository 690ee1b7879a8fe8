-- Module: parents, children and heirs. A child has an edge from each parent that is still open; the edges of a job that a
-- follow-up replaced are those of the first in that row, its root. Ids are hexadecimal in records and requests.

local stand_ins = {}

local bytes = setmetatable({}, {
  __index = function(read, pair)
    read[pair] = string.char(tonumber(pair, 16))
    return read[pair]
  end,
})

function family.unhex(text)
  return (string.gsub(text, '..', bytes))
end

function family.hex(id)
  return (string.gsub(id, '.', function(char) return format('%02x', string.byte(char)) end))
end

function family.root_of(row)
  return row[HEIR_OF] ~= '' and family.unhex(row[HEIR_OF]) or ids[row]
end

-- The row whose end the dependents of this one wait for.
function family.resolve(id)
  local row = row_of(id)
  while row and row[HEIR] ~= '' do row = row_of(family.unhex(row[HEIR])) end
  return row
end

local function preload_parents(parents)
  local wanted = {}
  for index, edge in ipairs(parents) do wanted[index] = family.unhex(edge[1]) end
  preload(wanted)
end

-- A job outside a flow that has not ended may wait only for parents that are here or come with it.
function family.unknown_parent(head, past, coming)
  if head[R_FLOW] ~= '' or (past ~= '' and cmsgpack.unpack(past)[1] >= SUCCEEDED) then return nil end
  preload_parents(head[R_PARENTS])
  for _, edge in ipairs(head[R_PARENTS]) do
    local id = family.unhex(edge[1])
    if not coming[id] and not family.resolve(id) then return edge[1] end
  end
  return nil
end

local function is_satisfied(on, state)
  return on == 1 or state == SUCCEEDED
end

-- Draws an edge from every parent still open; false if one has ended the wrong way.
function family.join(row, parents)
  preload_parents(parents)
  for _, edge in ipairs(parents) do
    local id = family.unhex(edge[1])
    local parent = family.resolve(stand_ins[id] or id)
    if not parent or parent[STATE] < SUCCEEDED then
      call('RPUSH', P .. 'edge:' .. (parent and family.root_of(parent) or id), ids[row] .. edge[2])
      row[EDGES] = row[EDGES] + 1
    elseif not is_satisfied(edge[2], parent[STATE]) then
      return false
    end
  end
  return true
end

-- A job that goes before its parents have ended leaves them: who comes again under its id must not be counted twice.
function family.leave_parents(row)
  for _, edge in ipairs((extras.head_of(ids[row]) or {})[R_PARENTS] or {}) do
    local id = family.unhex(edge[1])
    local parent = family.resolve(id)
    call('LREM', P .. 'edge:' .. (parent and family.root_of(parent) or id), 1, ids[row] .. edge[2])
  end
end

-- Lets those who came before a refused job, and wait for it, wait for the one that is there instead.
function family.stand_in(refused, there)
  stand_ins[refused] = ids[there]
  local key = P .. 'edge:' .. refused
  if call('EXISTS', key) == 0 then return end
  local row = family.resolve(ids[there])
  if not row or row[STATE] >= SUCCEEDED then
    chores.add('close', refused, row and row[STATE] or CANCELLED)
  else
    for _, entry in ipairs(call('LRANGE', key, 0, -1)) do call('RPUSH', P .. 'edge:' .. family.root_of(row), entry) end
    call('DEL', key)
  end
end

-- Closes edges of an ended job: a child with none left goes on, or ends with its parent.
function family.close(root, state, limit)
  local done = 0
  while done < limit do
    local entry = call('LPOP', P .. 'edge:' .. root)
    if not entry then return done, true end
    done = done + 1
    local row = row_of(sub(entry, 1, 16))
    if row then
      row[EDGES] = row[EDGES] - 1
      dirty[row] = true
      if row[STATE] == HELD then
        if not is_satisfied(tonumber(sub(entry, 17)), state) then
          ending.end_job(row, CANCELLED, 'parent')
        elseif row[EDGES] == 0 and row[HOLD] == PARENTS then
          leave(row)
          doors.place(row)
        end
      end
    end
  end
  return done, call('EXISTS', P .. 'edge:' .. root) == 0
end
