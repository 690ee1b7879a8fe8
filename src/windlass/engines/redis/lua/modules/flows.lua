-- Module: flows: whether one has started, and how many of its nodes are open.

local known = {}

function flows.of(name)
  local flow = known[name]
  if not flow then
    local found = call('HMGET', P .. 'flow:' .. name, 'started', 'open')
    flow = { started = found[1] == '1', open = tonumber(found[2] or 0) }
    known[name] = flow
  end
  return flow
end

function flows.count_open(name, n)
  local flow = flows.of(name)
  flow.open, flow.changed = flow.open + n, true
  return flow
end

-- Nodes are ordered by a count of their flow: ranks are dealt out to jobs that come into a stream, and a node may never.
function flows.add_node(name, id)
  local flow = flows.count_open(name, 1)
  local last = flow.last or tonumber(call('ZRANGE', P .. 'fn:' .. name, -1, -1, 'WITHSCORES')[2] or 0)
  flow.last = math.max(last + 1, now)
  zput('fn:' .. name, id, flow.last)
end

function flows.drop_node(name, id)
  zput('fn:' .. name, id, false)
  flows.of(name).left = true
end

-- As with lanes: what was counted for a node that is not there would keep the flow open for ever.
at_end[#at_end + 1] = function()
  for name, flow in pairs(known) do
    if flow.left and call('EXISTS', P .. 'fn:' .. name) == 0 then
      call('DEL', P .. 'flow:' .. name)
      call('HDEL', P .. 'facts', 'flow/' .. name)
    elseif flow.changed then
      call('HSET', P .. 'flow:' .. name, 'open', flow.open)
      if flow.started then call('HSET', P .. 'flow:' .. name, 'started', 1) end
    end
  end
end

-- Starts a flow's waiting nodes, or, once it has ended, lets their retention begin.
function flows.walk(kind, name, from, limit)
  flush() -- nodes of this very step are among them
  local nodes = call('ZRANGEBYSCORE', P .. 'fn:' .. name, from, '+inf', 'WITHSCORES', 'LIMIT', 0, limit)
  local open = flows.of(name).open
  for index = 1, #nodes, 2 do
    local row = row_of(nodes[index])
    if row and kind == 'start' and row[HOLD] == FLOW then
      leave(row)
      doors.place(row)
    elseif row and kind == 'retain' and open == 0 and row[STATE] >= SUCCEEDED and row[PURGE] == 0 then
      ending.set_purge(row)
    end
  end
  return #nodes / 2, #nodes / 2 < limit, nodes[#nodes] and '(' .. nodes[#nodes]
end
