-- write: small shared values, compared before they are set; some of them steer the store.
-- with: telling limits rows shelves finish writing facts
--
-- KEYS    meta
-- ARGV    now, schema, limits, then for each: key, '' or '=' and the value, expected version or '', ttl or '', rule of a gate or '',
--         flow that it starts or ''
-- returns for each: whether it was written, and the version that is there now
-- A version never comes again, also after a delete.

local last = tonumber(call('HGET', KEYS[1], 'facts') or 0)
local answers = {}
for index = 4, #ARGV, 6 do
  local key, value, expect, ttl, rule, flow = unpack(ARGV, index, index + 5)
  local there = facts.read(key)
  local version_ = there and there[F_VERSION] or 0
  if expect ~= '' and tonumber(expect) ~= version_ then
    answers[#answers + 1] = { 0, number(version_) }
  elseif value == '' then
    facts.drop(key)
    answers[#answers + 1] = { 1, '0' }
  else
    -- The rule before it may have expired without having been swept.
    if not there then call('HDEL', P .. 'tat', key) end
    last = math.max(last + 1, now)
    local expires = ttl ~= '' and now + ttl or 0
    call('HSET', P .. 'facts', key, cmsgpack.pack({ last, expires, sub(value, 2) }))
    if expires > 0 then call('ZADD', P .. 'factx', expires, key) else call('ZREM', P .. 'factx', key) end
    if rule ~= '' then
      local fields = cmsgpack.unpack(rule)
      fields[#fields + 1] = expires
      call('HSET', P .. 'rules', key, cmsgpack.pack(fields))
    end
    if flow ~= '' and not flows.of(flow).started then
      local starting = flows.of(flow)
      starting.started, starting.changed = true, true
      chores.add('start', flow, '-inf')
    end
    answers[#answers + 1] = { 1, number(last) }
  end
end
call('HSET', KEYS[1], 'facts', number(last))
if call('EXISTS', P .. 'chores') == 1 then chores.go_on(BATCH) end
finish()
return answers
