-- Part: what every script begins with: the schema is checked, the time is taken.

local call, format, sub = redis.call, string.format, string.sub
local P = sub(KEYS[1], 1, -5)

local meta = call('HMGET', KEYS[1], 'schema', 'order', 'version')
if meta[1] and meta[1] ~= ARGV[2] then
  return redis.error_reply('WINDLASS SCHEMA ' .. meta[1])
end
local order, version = tonumber(meta[2] or 0), tonumber(meta[3] or 0)
local order_before, version_before = order, version

local now
if ARGV[1] == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
else
  now = tonumber(ARGV[1])
end

local HELD, READY, SCHEDULED, RUNNING, SUCCEEDED, DEAD, CANCELLED, EXPIRED = 1, 2, 3, 4, 5, 6, 7, 8

local function number(value)
  return format('%.0f', value)
end

-- What was packed, or nothing where it is damaged: one bad value must not stop a script, and so everybody, for ever.
local function unpacked(packed)
  local fine, value = pcall(cmsgpack.unpack, packed)
  return fine and type(value) == 'table' and value or nil
end

-- Rings one idle worker of a queue that got a job. One whose process is gone hears nothing and is forgotten.
local function ring(queue)
  for _, room in ipairs({ queue, '*' }) do
    local ear = call('SPOP', P .. 'idle:' .. room)
    while ear do
      if call('PUBLISH', P .. 'ear:' .. ear, 'work ' .. queue) > 0 then return end
      ear = call('SPOP', P .. 'idle:' .. room)
    end
  end
end

-- Tells those who wait for a job's end: few jobs are waited for, so it is asked for all of them at once.
local function tell_ends(ended)
  local found = #ended > 0 and call('PUBSUB', 'NUMSUB', unpack(ended)) or {}
  for index = 2, #found, 2 do
    if found[index] > 0 then call('PUBLISH', found[index - 1], '') end
  end
end

-- Counts in a hash that has no zeros.
local function add_to(hash, name, n)
  if n ~= 0 and call('HINCRBY', P .. hash, name, n) == 0 then call('HDEL', P .. hash, name) end
end
