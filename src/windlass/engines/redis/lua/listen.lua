-- listen: what happened since the listener's last look; where nothing did, it is idle from now on.
-- with: rows spared
--
-- KEYS    meta
-- ARGV    now, schema, idler, {version it has seen or -1, rooms in which it is idle, mode}, ids whose ends it waits for…
--         idler: its ear, and behind a space each its rooms where there are several
--         mode 'look': look, then be idle; 'rise': be idle no more
-- returns 1 if there may be work, 1 if it was idle before, then the ids that have ended or are gone
-- An idle listener is rung by its ear's channel, to which it listens already. Who is rung or found something is not idle.

local idler = ARGV[3]
local seen, rooms, mode = unpack(cmsgpack.unpack(ARGV[4]))

-- Whether it was idle: who was rung is in none of its rooms any more.
local function rise()
  local was = 0
  for _, room in ipairs(rooms) do was = call('SREM', P .. 'idle:' .. room, idler) end
  return was
end

if mode == 'rise' then return { 0, rise() } end
local answer = { 0, 0 }
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
if answer[1] == 1 or #answer > 2 then
  answer[2] = rise()
else
  for _, room in ipairs(rooms) do
    local is_new = call('SADD', P .. 'idle:' .. room, idler)
    if is_new == 1 then call('SADD', P .. 'rooms', room) end
    answer[2] = 1 - is_new
  end
end
return answer
