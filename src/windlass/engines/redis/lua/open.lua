-- open: makes a new store, or refuses one that this process cannot read.
-- with: spared
--
-- KEYS    meta
-- ARGV    now, schema, then key and type of every key of a fixed name
-- returns the schema, and how far the store's own count is ahead of its clock
-- Nothing is written into a store with a key of another type than ours.

for index = 3, #ARGV, 2 do
  local kind = call('TYPE', P .. ARGV[index]).ok
  if kind ~= 'none' and kind ~= ARGV[index + 1] then
    return redis.error_reply('WINDLASS KEY ' .. P .. ARGV[index] .. ' ' .. kind .. ' ' .. ARGV[index + 1])
  end
end
call('HSETNX', KEYS[1], 'schema', ARGV[2])
return { call('HGET', KEYS[1], 'schema'), number(order - now) }
