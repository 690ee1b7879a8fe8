-- note: appends to running jobs: log lines within their bound, the last progress, steps by key, the start of a suspect.
-- with: telling limits rows shelves finish writing settling extras
--
-- KEYS    meta
-- ARGV    now, schema, limits, then for each note: id, fence, kind, data, key, stream, when
-- returns for each note accepted, already or stale
-- Only the claim that holds the current fence writes; too many steps refuse all of them.

local wanted = {}
for index = 4, #ARGV, 7 do wanted[#wanted + 1] = ARGV[index] end
preload(wanted)

local steps = {}
for index = 4, #ARGV, 7 do
  local id, key = ARGV[index], ARGV[index + 4]
  if ARGV[index + 2] == 'step' and settling.verdict(row_of(id), ARGV[index + 1]) == 'accepted' then
    local known = steps[id]
    if not known then
      known = { n = call('HLEN', P .. 'st:' .. id) }
      steps[id] = known
    end
    if not known[key] and call('HEXISTS', P .. 'st:' .. id, key) == 0 then known.n = known.n + 1 end
    known[key] = true
    if known.n > STEPS_KEPT then return redis.error_reply('WINDLASS STEPS') end
  end
end

-- The head of a log stays, its tail moves on, the middle is what is lost.
local function append_line(row, data, stream, at)
  local id = ids[row]
  local extra, head, tail = P .. 'x:' .. id, P .. 'lh:' .. id, P .. 'lt:' .. id
  local start = cmsgpack.pack({ call('HINCRBY', extra, 'lines', 1), row[ATTEMPT], at, stream })
  local line = string.char(#start) .. start .. data
  local size = #data + LINE_COST
  local bytes = call('HMGET', extra, 'head', 'tail')
  local half = math.floor(limits[L_LOG_BYTES] / 2)
  if not bytes[2] and (bytes[1] or 0) + size <= half then
    call('RPUSH', head, line)
    call('HINCRBY', extra, 'head', size)
  else
    call('RPUSH', tail, line)
    local tail_bytes = call('HINCRBY', extra, 'tail', size)
    while tail_bytes > half and call('LLEN', tail) > 1 do
      local first = call('LPOP', tail)
      local text = #first - 1 - string.byte(first)
      tail_bytes = call('HINCRBY', extra, 'tail', -(text + LINE_COST))
    end
  end
  extras.mark(row, HAS_EXTRA)
  extras.mark(row, HAS_LOG)
end

local verdicts = {}
for index = 4, #ARGV, 7 do
  local row, kind, data = row_of(ARGV[index]), ARGV[index + 2], ARGV[index + 3]
  local verdict = settling.verdict(row, ARGV[index + 1])
  if verdict == 'accepted' then
    if kind == 'start' then
      row[STARTED] = now
    elseif kind == 'log' then
      local at = tonumber(ARGV[index + 6])
      append_line(row, data, ARGV[index + 5], at > 0 and at or now)
    elseif kind == 'progress' then
      call('HSET', P .. 'x:' .. ARGV[index], 'progress', data, 'progress_at', number(now))
      extras.mark(row, HAS_EXTRA)
    else
      call('HSET', P .. 'st:' .. ARGV[index], ARGV[index + 4], data)
      extras.mark(row, HAS_STEPS)
    end
    dirty[row] = true
  end
  verdicts[#verdicts + 1] = verdict
end
finish()
return verdicts
