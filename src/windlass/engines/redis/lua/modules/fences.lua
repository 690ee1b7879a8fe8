-- Module: fences are whole numbers of any size, as text: Lua counts exactly to 2^53 only.

local first = number(now)

local function less(one, other)
  if #one ~= #other then return #one < #other end
  return one < other
end

-- A fence greater than the one before: the time, where that is.
function fences.after(previous)
  if less(previous, first) then return first end
  local digits, place = previous, #previous
  while place > 0 and sub(digits, place, place) == '9' do place = place - 1 end
  local zeros = string.rep('0', #digits - place)
  if place == 0 then return '1' .. zeros end
  return sub(digits, 1, place - 1) .. (sub(digits, place, place) + 1) .. zeros
end
