-- Module: lanes. Of a lane's jobs so many are in a stream or run as it has places; the others wait in its line, in order.

local known, let_in = {}, 0

local function lane_of(name)
  local lane = known[name]
  if not lane then
    local found = call('HMGET', P .. 'lane:' .. name, 'limit', 'busy', 'last')
    lane = { limit = tonumber(found[1] or 1), busy = tonumber(found[2] or 0), last = tonumber(found[3] or 0) }
    known[name] = lane
  end
  return lane
end

-- A lane that is empty is forgotten, with the limit that somebody stated for it.
local function save(name, lane)
  lane.changed = true
  if lane.busy == 0 and call('EXISTS', P .. 'lw:' .. name) == 0 then lane.limit, lane.last = 1, 0 end
end

-- Places are counted in the store only when nothing can go wrong any more: one that nobody has would stay taken for ever.
at_end[#at_end + 1] = function()
  for name, lane in pairs(known) do
    if lane.changed and lane.busy == 0 and call('EXISTS', P .. 'lw:' .. name) == 0 then
      call('DEL', P .. 'lane:' .. name)
    elseif lane.changed then
      call('HSET', P .. 'lane:' .. name, 'limit', lane.limit, 'busy', lane.busy, 'last', lane.last)
    end
  end
end

-- Lets the first waiting jobs into their streams, each ranked above the one before it.
function lanes.admit(name)
  local lane, admitted = lane_of(name), 0
  while lane.busy < lane.limit do
    if admitted >= BATCH or let_in >= 2 * BATCH then
      chores.add('lane', name)
      break
    end
    local id = call('ZRANGE', P .. 'lw:' .. name, 0, 0)[1]
    if not id then break end
    call('ZREM', P .. 'lw:' .. name, id)
    local row = row_of(id)
    if row then
      admitted, let_in = admitted + 1, let_in + 1
      if row[EXPIRES] > 0 and row[EXPIRES] <= now then
        ending.end_job(row, EXPIRED)
      else
        leave(row)
        lane.busy = lane.busy + 1
        row[SLOT] = 1
        row[RANK] = math.max(row[RANK], lane.last + 1)
        lane.last = row[RANK]
        doors.make_ready(row)
      end
    end
  end
  save(name, lane)
  return admitted
end

-- Puts a job at the end of its lane's line.
function lanes.join(row)
  local name = row[LANE]
  local lane = lane_of(name)
  if row[LANE_LIMIT] > 0 then lane.limit = row[LANE_LIMIT] end
  call('ZADD', P .. 'lw:' .. name, doors.next_order(), ids[row])
  doors.hold(row, LANE_FULL)
  lanes.admit(name)
end

-- Frees the place of a job that goes, or takes it out of the line.
function lanes.leave(row)
  if row[SLOT] == 1 then
    row[SLOT] = 0
    local lane = lane_of(row[LANE])
    lane.busy = lane.busy - 1
    lanes.admit(row[LANE])
  elseif row[HOLD] == LANE_FULL then
    call('ZREM', P .. 'lw:' .. row[LANE], ids[row])
    save(row[LANE], lane_of(row[LANE]))
  end
end
