-- insert: takes jobs in.
-- with: limits rows shelves finish writing doors intake
--
-- KEYS    meta
-- ARGV    now, schema, limits, whether parents were looked for already, then for each job: id, request, what it has behind it (or ''), its result
-- returns for each job '' (new) or the id of the one that is there instead
-- Every job is in the store once, whatever is repeated; a parent that nobody knows refuses all of them.

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
