-- renew: a worker's sign of life, once for all its jobs, and the store's answer to it.
-- with: spared writing desks facts
--
-- KEYS    meta
-- ARGV    now, schema, {worker, beat, lease, knows all tasks, bye, {queue|task|name, n}…, spans}, card, tasks…
-- returns gone, now, number of its running jobs, its command or false, then the ids of jobs to stop
-- One renewal per worker, whatever the number of jobs; a repeated beat adds its counts once.

local worker, beat, lease, all, bye, deltas, spans = unpack(cmsgpack.unpack(ARGV[3]))
local card = ARGV[4]

local desk = desks.of(worker)
if (desk and desk[D_LOST] == 1) or (not desk and beat > 0) then return { 1, number(now) } end

local function add()
  for index = 1, #deltas, 2 do
    for _, span in ipairs(spans) do
      local start = now - now % span[2]
      local key = 'hb:' .. span[1] .. ':' .. number(start)
      call('HINCRBY', P .. key, deltas[index], deltas[index + 1])
      call('ZADD', P .. 'hist:' .. span[1], start, number(start))
    end
  end
end

local function write_card()
  call('HSET', P .. 'cards', worker, card)
  call('DEL', P .. 'tk:' .. worker)
  for start = 5, #ARGV, 1000 do
    call('SADD', P .. 'tk:' .. worker, unpack(ARGV, start, math.min(start + 999, #ARGV)))
  end
end

if not desk then
  desk = { beat, now, now, 0, 0, lease, all }
  add()
  write_card()
elseif beat > desk[D_BEAT] then
  add()
  desk[D_BEAT], desk[D_ALL] = beat, all
  if call('HGET', P .. 'cards', worker) ~= card then write_card() end
end
if now - desk[D_SEEN] > desk[D_LEASE] then desk[D_UNBROKEN] = now end
desk[D_SEEN], desk[D_LEASE] = now, lease
local running = call('ZCARD', P .. 'w:' .. worker)
local command = facts.read('worker/' .. worker)
local answer = { 0, number(now), running, command and command[F_VALUE] or false }
for index, id in ipairs(call('SRANDMEMBER', P .. 'asked:' .. worker, BATCH)) do answer[4 + index] = id end
if bye == 1 and running == 0 then
  desks.forget(worker)
else
  -- A worker that leaves with claims in hand is treated like one that died: sweep takes them.
  if bye == 1 then desk[D_LOST] = 1 end
  call('HSET', P .. 'desks', worker, cmsgpack.pack(desk))
end
return answer
