-- Module: the end of a job, and what it sets free.

local closed = {}

function ending.set_purge(row)
  row[PURGE] = math.max(row[ENDED] + row[KEEP], row[KEY_UNTIL])
  zput(row[STATE] == SUCCEEDED and 'purgeok' or 'purge', ids[row], row[PURGE])
  dirty[row] = true
end

-- Ends a job that stands on a shelf: its key, its place in the lane and its dependents are set free with it.
function ending.end_job(row, state, reason, keep, ended_us)
  leave(row)
  if row[REASON] ~= (reason or '') then row[REASON] = reason or '' end
  row[ENDED] = ended_us or now
  row[KEEP] = keep or limits[state + L_KEEP]
  if row[KEY] ~= '' and row[UNTIL] ~= UNTIL_TIME then keys.clear(row) end
  if row[LANE] ~= '' then lanes.leave(row) end
  if row[HOLD] ~= 0 then row[HOLD] = 0 end
  arrive(row, state)
  ended[#ended + 1] = P .. 'end:' .. ids[row]
  if row[HEIR] == '' then closed[#closed + 1] = row end
  if row[FLOW_ID] == '' then
    ending.set_purge(row)
  elseif flows.count_open(row[FLOW_ID], -1).open == 0 then
    chores.add('retain', row[FLOW_ID], '-inf')
  end
end

-- Lets the children of the jobs that ended in this step go on: few have any, so it is asked for all of them at once.
function ending.call_children()
  if #closed == 0 then return end
  local all, edges = closed, {}
  closed = {}
  for index = 1, #all do
    local row = all[index]
    edges[index] = P .. 'edge:' .. (row[HEIR_OF] ~= '' and family.root_of(row) or ids[row])
  end
  if call('EXISTS', unpack(edges)) == 0 then return end
  for index = 1, #all do
    if call('EXISTS', edges[index]) == 1 then chores.add('close', sub(edges[index], #P + 6), all[index][STATE]) end
  end
end
at_end[#at_end + 1] = ending.call_children

-- Takes an ended job off every shelf.
function ending.drop(row)
  local id, has = ids[row], row[EXTRAS]
  if row[EDGES] > 0 then family.leave_parents(row) end
  leave(row)
  zput(row[STATE] == SUCCEEDED and 'purgeok' or 'purge', id, false)
  if row[KEY] ~= '' then keys.clear(row) end
  if row[PRINT] ~= '' then zput('fp:' .. row[PRINT], id, false) end
  if row[LANE] ~= '' then zput('la:' .. row[LANE], id, false) end
  if row[FLOW_ID] ~= '' then flows.drop_node(row[FLOW_ID], id) end
  texts[P .. 'r:' .. id], texts[P .. 'o:' .. id] = nil, nil
  call('UNLINK', P .. 'j:' .. id, P .. 'r:' .. id, P .. 'o:' .. id)
  if has % HAS_RESULT > 0 then
    call('UNLINK', P .. 'x:' .. id, P .. 'lh:' .. id, P .. 'lt:' .. id, P .. 'a:' .. id, P .. 'st:' .. id)
  end
  rows[id] = false
end
