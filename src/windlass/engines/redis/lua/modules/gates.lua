-- Module: how many jobs a gate lets through now, and when to look again (core/gates.py and core/rates.py in Lua).
--
-- Lua has doubles only: whole numbers are exact below 2^53. Products that may be larger are divided piece by piece.
--
-- A rule is {paused, shut until, probes, limit, count, per, burst, expires}; -1 where there is no such
-- bound, and a count of 0 where there is no rate.

local PAUSED, SHUT_UNTIL, PROBES, LIMIT, RATE_COUNT, RATE_PER, RATE_BURST, RULE_EXPIRES = 1, 2, 3, 4, 5, 6, 7, 8
local EXACT = 2 ^ 53

-- floor(a * b / c) and its rest, exactly; a < c.
local function muldiv(a, b, c)
  local product = a * b
  if product < EXACT then
    local rest = math.fmod(product, c)
    return (product - rest) / c, rest
  end
  local base = 2
  while base * 2 * c <= EXACT / 2 do base = base * 2 end
  local digits = {}
  while b > 0 do
    local digit = math.fmod(b, base)
    digits[#digits + 1] = digit
    b = (b - digit) / base
  end
  local quotient, rest = 0, 0
  for index = #digits, 1, -1 do
    local value = rest * base + a * digits[index]
    rest = math.fmod(value, c)
    quotient = quotient * base + (value - rest) / c
  end
  return quotient, rest
end

local function mark(rule, at)
  local rest = math.fmod(at, rule[RATE_PER])
  return (at - rest) / rule[RATE_PER] * rule[RATE_COUNT] + (muldiv(rest, rule[RATE_COUNT], rule[RATE_PER]))
end

local function instant(rule, marks)
  local rest = math.fmod(marks, rule[RATE_COUNT])
  local quotient, more = muldiv(rest, rule[RATE_PER], rule[RATE_COUNT])
  return (marks - rest) / rule[RATE_COUNT] * rule[RATE_PER] + quotient + (more > 0 and 1 or 0)
end

-- The instant `n` tokens after `at`.
function gates.advance(rule, at, n)
  local marks = mark(rule, at)
  return instant(rule, marks + n) + at - instant(rule, marks)
end

-- How many tokens may be spent at an instant.
local function allowance(rule, tat, at)
  if tat <= at then return rule[RATE_BURST] end
  local full = gates.advance(rule, at, rule[RATE_BURST])
  if tat >= full then return 0 end
  local tokens = mark(rule, full) - mark(rule, tat)
  while tokens > 0 and gates.advance(rule, tat, tokens) > full do tokens = tokens - 1 end
  return math.min(tokens, rule[RATE_BURST])
end

local function next_token(rule, tat)
  if allowance(rule, tat, now) > 0 then return now end
  local at = math.max(now, tat - math.floor((rule[RATE_BURST] - 1) * rule[RATE_PER] / rule[RATE_COUNT]) - 4)
  -- Past 2^53 a step of one moves nothing: after some single steps they grow.
  local steps = 0
  while allowance(rule, tat, at) == 0 do
    at = at + 2 ^ math.max(0, steps - 16)
    steps = steps + 1
  end
  return at
end

-- How many may pass now (nil: any number) and, if a clock decides, when to look again.
function gates.opening(rule, tat, running)
  if rule[PAUSED] == 1 then return 0 end
  if now < rule[SHUT_UNTIL] then return 0, rule[SHUT_UNTIL] end
  local bound, again
  if rule[LIMIT] >= 0 then bound = rule[LIMIT] - running end
  if rule[PROBES] >= 0 then bound = math.min(bound or math.huge, rule[PROBES] - running) end
  if rule[RATE_COUNT] > 0 then
    bound = math.min(bound or math.huge, allowance(rule, tat, now))
    again = next_token(rule, tat)
  end
  return bound and math.max(0, bound), again
end

function gates.rule_of(gate)
  local packed = call('HGET', P .. 'rules', gate)
  local rule = packed and unpacked(packed)
  if not rule or (rule[RULE_EXPIRES] > 0 and rule[RULE_EXPIRES] <= now) then return nil end
  return rule
end

-- A gate's rule in the store, how many it lets through by that and what passes it now, and when to look again.
function gates.look(gate)
  local rule = gates.rule_of(gate)
  if not rule then return nil end
  local running = tonumber(call('HGET', P .. 'run', gate) or 0)
  local bound, again = gates.opening(rule, tonumber(call('HGET', P .. 'tat', gate) or 0), running)
  return rule, bound, again
end

-- Spends tokens of a gate that has a rate.
function gates.spend(gate, rule, n)
  if rule[RATE_COUNT] <= 0 then return end
  local tat = tonumber(call('HGET', P .. 'tat', gate) or 0)
  call('HSET', P .. 'tat', gate, number(gates.advance(rule, math.max(tat, now), n)))
end
