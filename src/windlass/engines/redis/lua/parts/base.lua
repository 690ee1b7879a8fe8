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
