-- insert: takes jobs in.
-- with: store writing admission
--
-- KEYS    meta
-- ARGV    now, schema, limits, whether parents were looked for already, then for each job: id, request, what it has behind it (or ''), its result
-- returns for each job '' (new) or the id of the one that is there instead
-- Every job is in the store once, whatever is repeated; a parent that nobody knows refuses all of them.

local coming, waiting = {}, {}
for index = 5, #ARGV, 4 do
  coming[ARGV[index]] = true
  waiting[#waiting + 1] = ARGV[index]
end
preload(waiting)

for index = 5, #ARGV, 4 do
  local unknown, task = nil, nil
  if ARGV[4] == '0' then unknown, task = unknown_parent(ARGV[index + 1], ARGV[index + 2], coming) end
  if unknown then return redis.error_reply('WINDLASS PARENT ' .. unknown .. ' ' .. task) end
end

local answers = {}
for index = 5, #ARGV, 4 do
  answers[#answers + 1] = insert(ARGV[index], ARGV[index + 1], ARGV[index + 2], ARGV[index + 3]) or ''
end
finish()
return answers
