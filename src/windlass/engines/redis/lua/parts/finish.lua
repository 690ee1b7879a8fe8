-- Part: the end of a step: what was changed in memory is written, and those who wait for it are told.

local woken, ended, asked = {}, {}, {}
local at_end, texts = {}, {}

local function tell()
  if next(woken) then version = version + 1 end
  for queue in pairs(woken) do
    call('HSET', P .. 'news', queue, version)
    ring(queue)
  end
  tell_ends(ended)
  for worker in pairs(asked) do call('PUBLISH', P .. 'order:' .. worker, '') end
end

local function write_counters()
  local succeeded = 0
  for queue, tasks in pairs(counters) do
    for task, counter in pairs(tasks) do
      for state, n in pairs(counter.numbers) do add_to('counts', queue .. '|' .. task .. '|' .. state, n) end
      succeeded = succeeded + (counter.numbers[SUCCEEDED] or 0)
    end
  end
  if succeeded ~= 0 then call('HINCRBY', KEYS[1], 'succeeded', succeeded) end
  for queue, n in pairs(queue_runs) do add_to('run', 'queue/' .. queue, n) end
  for gate, n in pairs(gate_runs) do add_to('run', 'gate/' .. gate, n) end
end

local function finish()
  flush()
  for _, write in ipairs(at_end) do write() end
  local all = {}
  for row in pairs(dirty) do
    local id = ids[row]
    if rows[id] == row then
      local packed = pack(row)
      dirty[row] = packed
      all[#all + 1] = P .. 'j:' .. id
      all[#all + 1] = packed
    end
  end
  for key, text in pairs(texts) do
    all[#all + 1] = key
    all[#all + 1] = text
  end
  for start = 1, #all, 1000 do call('MSET', unpack(all, start, math.min(start + 999, #all))) end
  write_counters()
  tell()
  if order ~= order_before or version ~= version_before then
    call('HSET', KEYS[1], 'order', order, 'version', version)
  end
end
