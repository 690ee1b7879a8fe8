-- shelves: on which shelves jobs stand now, for a search to walk over.
-- with:
--
-- KEYS    meta
-- ARGV    now, schema
-- returns the streams, the workers, and the queue|task|state of all counted jobs
-- Writes nothing.

local streams = {}
for _, queue in ipairs(call('SMEMBERS', P .. 'queues')) do
  for _, stream in ipairs(call('ZRANGE', P .. 'h:' .. queue, 0, -1)) do streams[#streams + 1] = stream end
end
return { streams, call('HKEYS', P .. 'desks'), call('HKEYS', P .. 'counts') }
