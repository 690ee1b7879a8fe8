-- parents: looks for the parents of jobs that are too many for one insert, before the first of them is written.
-- with: rows intake family
--
-- KEYS    meta
-- ARGV    now, schema, then for each job: its request, what it has behind it (or '')
-- returns nothing; refuses where a parent is not in the store
-- Writes nothing. The caller names only jobs whose parents do not come with them.

for index = 3, #ARGV, 2 do
  local head = intake.head_of(ARGV[index])
  local unknown = family.unknown_parent(head, ARGV[index + 1], {})
  if unknown then return redis.error_reply('WINDLASS PARENT ' .. unknown .. ' ' .. head[R_TASK]) end
end
