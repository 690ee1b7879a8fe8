-- fetch: jobs by id, each with the parts that were asked for.
-- with: rows
--
-- KEYS    meta
-- ARGV    now, schema, {payload, result, attempts, progress, log, steps}, ids…
-- returns now, then for each job false or {record, request, failure, result, progress, its time, attempts, log, steps}
-- Writes nothing.

local payload, result, attempts, progress, log, steps = unpack(cmsgpack.unpack(ARGV[3]))

local function request_of(id)
  local request = call('GET', P .. 'r:' .. id)
  if not request or payload == 1 or #request < 8 then return request end
  local head, options = struct.unpack('>I4I4', request)
  return sub(request, 1, 8 + head + options)
end

local function lines(id)
  local all = call('LRANGE', P .. 'lh:' .. id, 0, -1)
  for _, line in ipairs(call('LRANGE', P .. 'lt:' .. id, 0, -1)) do all[#all + 1] = line end
  return all
end

local function show(id)
  local packed = call('GET', P .. 'j:' .. id)
  if not packed then return false end
  local extras = (adopt(id, packed) or DEFAULT)[EXTRAS]
  local extra = extras % 2 == 1 and call('HMGET', P .. 'x:' .. id, 'failure', 'progress', 'progress_at') or {}
  local function has(bit) return extras % (2 * bit) >= bit end
  return {
    packed,
    request_of(id),
    extra[1] or false,
    result == 1 and has(HAS_RESULT) and call('GET', P .. 'o:' .. id),
    progress == 1 and extra[2] or false,
    progress == 1 and extra[3] or false,
    attempts == 1 and has(HAS_ATTEMPTS) and call('LRANGE', P .. 'a:' .. id, 0, -1) or {},
    log == 1 and has(HAS_LOG) and lines(id) or {},
    steps == 1 and has(HAS_STEPS) and call('HGETALL', P .. 'st:' .. id) or {},
  }
end

local answer = { number(now) }
for index = 4, #ARGV do answer[index - 2] = show(ARGV[index]) end
return answer
