-- insert: takes jobs in.
-- with: telling splicing limits rows shelves finish writing doors intake
--
-- KEYS    meta
-- ARGV    now, schema, limits, whether parents were looked for already, then for each job: id, request, what it has behind it (or ''), its result
-- returns for each job '' (new) or the id of the one that is there instead
-- Every job is in the store once, whatever is repeated; a parent that nobody knows refuses all of them.

-- first: plain jobs of one task, queue and priority, as most senders bring them: their records differ in the rank only. They
-- wait for this, and defining what other jobs need takes as long as storing one. What is written is what the modules would
-- write. Gives nothing, and has written nothing, where one is of another kind, comes twice or is there already.
local function insert_plain()
  local packed = sub(ARGV[6], 9, 8 + struct.unpack('>I4', ARGV[6]))
  local head = cmsgpack.unpack(packed)
  if #head ~= R_DELAY or head[R_DELAY] ~= 0 or ARGV[7] ~= '' then return end
  local task, queue, priority = head[R_TASK], head[R_QUEUE], head[R_PRIORITY]
  local stream, place, lower = P .. 's:' .. queue .. '||||0', math.max(order + 1, now), 0
  local row = { READY, queue, task, place, now, now }
  if priority ~= 0 then
    lower = priority * cmsgpack.unpack(ARGV[3])[L_AGING]
    row[RANK], row[PRIORITY] = place - lower, priority
  end
  local answers = { '' }
  if #ARGV == 8 then
    if call('MSETNX', P .. 'j:' .. ARGV[5], cmsgpack.pack(row), P .. 'r:' .. ARGV[5], ARGV[6]) == 0 then return end
    call('ZADD', stream, row[RANK], ARGV[5])
  else
    local written, ranked, seen = {}, {}, {}
    local before, behind = char(LIST + #row) .. fields(READY, queue, task), fields(now, now, row[PRIORITY])
    place = place - 1
    for index = 1, (#ARGV - 4) / 4 do
      local id, request = ARGV[4 * index + 1], ARGV[4 * index + 2]
      if ARGV[4 * index + 3] ~= '' or seen[id] then return end
      if sub(request, 9, 8 + #packed) ~= packed then return end
      place = place + 1
      written[4 * index - 3], written[4 * index - 2] = P .. 'j:' .. id, before .. cmsgpack.pack(place - lower) .. behind
      written[4 * index - 1], written[4 * index] = P .. 'r:' .. id, request
      ranked[2 * index - 1], ranked[2 * index] = place - lower, id
      seen[id], answers[index] = true, ''
    end
    if call('MSETNX', unpack(written)) == 0 then return end
    call('ZADD', stream, unpack(ranked))
  end
  if call('ZADD', P .. 'h:' .. queue, 'LT', row[RANK], queue .. '||||0') == 1 then call('SADD', P .. 'queues', queue) end
  call('HINCRBY', P .. 'counts', queue .. '|' .. task .. '|' .. READY, #answers)
  call('HSET', P .. 'news', queue, version + 1)
  call('HSET', KEYS[1], 'schema', ARGV[2], 'order', place, 'version', version + 1)
  ring(queue)
  return answers
end

local plain = insert_plain()
if plain then return plain end

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
