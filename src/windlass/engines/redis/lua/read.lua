-- read: small shared values.
-- with: facts
--
-- KEYS    meta
-- ARGV    now, schema, keys…
-- returns for each key false or {value, version, when it goes (0: never)}
-- Writes nothing.

local answers = {}
for index = 3, #ARGV do
  local fact = facts.read(ARGV[index])
  answers[index - 2] = fact and { fact[F_VALUE], number(fact[F_VERSION]), number(fact[F_EXPIRES]) } or false
end
return answers
