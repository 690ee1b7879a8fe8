-- listen: what happened since the listener's last look; where nothing did, it is idle from now on.
-- with: rows spared
--
-- KEYS    meta
-- ARGV    now, schema, ear, {version it has seen or -1, rooms in which it is idle, mode}, ids whose ends it waits for…
--         mode 'look': look, then be idle; 'rest': be idle no more
-- returns 1 if there may be work, then the ids that have ended or are gone
-- An idle listener is rung by its ear's channel, to which it listens already.

local ear = ARGV[3]
local seen, rooms, mode = unpack(cmsgpack.unpack(ARGV[4]))
if mode == 'rest' then
  for _, room in ipairs(rooms) do call('SREM', P .. 'idle:' .. room, ear) end
  return { 0 }
end
local answer = { 0 }
if version < seen and #rooms > 0 then
  -- The store has lost its last steps, as after a failover: nobody knows what is new.
  answer[1] = 1
elseif seen >= 0 and version > seen then
  for _, room in ipairs(rooms) do
    if room == '*' or tonumber(call('HGET', P .. 'news', room) or 0) > seen then answer[1] = 1 end
  end
end
-- News of a job that waits for its time go with the last ready job of its queue: when it is due, that is news again.
local due = seen >= 0 and #rooms > 0 and call('ZRANGE', P .. 'due', 0, 0, 'WITHSCORES')[2]
if due and tonumber(due) <= now then answer[1] = 1 end
for index = 5, #ARGV do
  local row = row_of(ARGV[index])
  if not row or row[STATE] >= SUCCEEDED then answer[#answer + 1] = ARGV[index] end
end
if answer[1] == 0 and #answer == 1 then
  for _, room in ipairs(rooms) do
    if call('SADD', P .. 'idle:' .. room, ear) == 1 then call('SADD', P .. 'rooms', room) end
  end
end
return answer
