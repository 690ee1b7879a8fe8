-- Part: those who wait are told, and numbers are counted. It comes before what a verb does first.

-- Rings one idle worker of a queue that got a job: it is idle no more, in none of its rooms. One whose process is gone
-- hears nothing and is forgotten.
local function ring(queue)
  for _, room in ipairs({ queue, '*' }) do
    local idler = call('SPOP', P .. 'idle:' .. room)
    while idler do
      for other in string.gmatch(idler, ' (%S+)') do call('SREM', P .. 'idle:' .. other, idler) end
      if call('PUBLISH', P .. 'ear:' .. string.match(idler, '^%S*'), 'work ' .. queue) > 0 then return end
      idler = call('SPOP', P .. 'idle:' .. room)
    end
  end
end

-- Tells those who wait for a job's end: few jobs are waited for, so it is asked for all of them at once. `shown` gives what
-- they are told of the job at that place; without it, or if it gives '', they fetch it.
local function tell_ends(ended, shown)
  local found = #ended > 0 and call('PUBSUB', 'NUMSUB', unpack(ended)) or {}
  for index = 1, #found / 2 do
    if found[2 * index] > 0 then call('PUBLISH', found[2 * index - 1], shown and shown(index) or '') end
  end
end

-- Counts in a hash that has no zeros.
local function add_to(hash, name, n)
  if n ~= 0 and call('HINCRBY', P .. hash, name, n) == 0 then call('HDEL', P .. hash, name) end
end
