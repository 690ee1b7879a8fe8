-- parents: looks for the parents of jobs that are too many for one insert, before the first of them is written.
-- with: store admission
--
-- KEYS    meta
-- ARGV    now, schema, limits, then for each job: its request, what it has behind it (or '')
-- returns nothing; refuses where a parent is not in the store
-- Writes nothing. The caller names only jobs whose parents do not come with them.

for index = 4, #ARGV, 2 do
  local unknown, task = unknown_parent(ARGV[index], ARGV[index + 1], {})
  if unknown then return redis.error_reply('WINDLASS PARENT ' .. unknown .. ' ' .. task) end
end
