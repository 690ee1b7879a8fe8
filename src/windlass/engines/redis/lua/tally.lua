-- tally: kept counters, cards, and some buckets of the history.
-- with: desks
--
-- KEYS    meta
-- ARGV    now, schema, span or '', since
-- returns counters, cards of the living, start and counters of at most 60 buckets, where to go on or false
-- Writes nothing.

local cards = {}
local all = call('HGETALL', P .. 'desks')
for index = 1, #all, 2 do
  local desk = unpacked(all[index + 1])
  if desk and desk[D_LOST] == 0 then cards[#cards + 1] = call('HGET', P .. 'cards', all[index]) end
end
local buckets, go_on = {}, false
if ARGV[3] ~= '' then
  local starts = call('ZRANGEBYSCORE', P .. 'hist:' .. ARGV[3], ARGV[4], '+inf', 'LIMIT', 0, 61)
  for index, start in ipairs(starts) do
    if index <= 60 then
      buckets[#buckets + 1] = { start, call('HGETALL', P .. 'hb:' .. ARGV[3] .. ':' .. start) }
    else
      go_on = start
    end
  end
end
return { call('HGETALL', P .. 'counts'), cards, buckets, go_on }
