-- insert: takes jobs in.
-- with: telling limits rows shelves finish writing doors intake
--
-- KEYS    meta
-- ARGV    now, schema, limits, whether parents were looked for already, then for each job: id, request, what it has behind it (or ''), its result
-- returns for each job '' (new) or the id of the one that is there instead
-- Every job is in the store once, whatever is repeated; a parent that nobody knows refuses all of them.

-- first: a plain job alone, as most senders bring it. They wait for this, and defining what other jobs need takes as long as
-- storing one. What is written is what the modules would write; one that is there already is left to them.
if #ARGV == 8 and ARGV[7] == '' then
  local id, request = ARGV[5], ARGV[6]
  local head = cmsgpack.unpack(sub(request, 9, 8 + struct.unpack('>I4', request)))
  if #head == R_DELAY and head[R_DELAY] == 0 then
    local task, queue, priority = head[R_TASK], head[R_QUEUE], head[R_PRIORITY]
    local place = math.max(order + 1, now)
    local row = { READY, queue, task, place, now, now }
    if priority ~= 0 then
      row[RANK], row[PRIORITY] = place - priority * cmsgpack.unpack(ARGV[3])[L_AGING], priority
    end
    if call('MSETNX', P .. 'j:' .. id, cmsgpack.pack(row), P .. 'r:' .. id, request) == 1 then
      local stream = queue .. '||||0'
      call('ZADD', P .. 's:' .. stream, row[RANK], id)
      if call('ZADD', P .. 'h:' .. queue, 'LT', row[RANK], stream) == 1 then call('SADD', P .. 'queues', queue) end
      call('HINCRBY', P .. 'counts', queue .. '|' .. task .. '|' .. READY, 1)
      call('HSET', P .. 'news', queue, version + 1)
      call('HSET', KEYS[1], 'schema', ARGV[2], 'order', place, 'version', version + 1)
      ring(queue)
      return { '' }
    end
  end
end

-- then:
local wanted, heads, coming = {}, {}, {}
for index = 5, #ARGV, 4 do
  wanted[#wanted + 1] = ARGV[index]
  heads[index] = intake.head_of(ARGV[index + 1])
  coming[ARGV[index]] = true
end
preload(wanted)

for index = 5, #ARGV, 4 do
  local head = heads[index]
  local unknown = ARGV[4] == '0' and head[R_PARENTS] and family.unknown_parent(head, ARGV[index + 2], coming)
  if unknown then return redis.error_reply('WINDLASS PARENT ' .. unknown .. ' ' .. head[R_TASK]) end
end

local answers = {}
for index = 5, #ARGV, 4 do
  local there = intake.insert(ARGV[index], heads[index], ARGV[index + 1], ARGV[index + 2], ARGV[index + 3])
  answers[#answers + 1] = there or ''
end
finish()
return answers
