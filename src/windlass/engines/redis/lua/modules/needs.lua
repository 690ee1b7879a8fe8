-- Module: what jobs need of a worker, as text like "gpu=1,memory=512" (core/gates.py).

local classes = {}

-- Needs rounded up to few sizes, so that jobs of nearly equal size share a stream.
function needs.class_of(text)
  local class = classes[text]
  if not class then
    local sizes = {}
    for name, figure in string.gmatch(text, '([^=,]+)=([^,]+)') do
      local amount = tonumber(figure)
      local _, bits = math.frexp(amount)
      local step = 2 ^ math.max(0, bits - 3)
      sizes[#sizes + 1] = name .. '=' .. number(math.ceil(amount / step) * step)
    end
    table.sort(sizes)
    class = table.concat(sizes, ',')
    classes[text] = class
  end
  return class
end

function needs.read(text)
  local amounts = {}
  for name, figure in string.gmatch(text, '([^=,]+)=([^,]+)') do amounts[name] = tonumber(figure) end
  return amounts
end

-- The least that a job of a resource class needs.
function needs.least_of(class)
  local amounts = needs.read(class)
  for name, amount in pairs(amounts) do
    local _, bits = math.frexp(amount - 1)
    amounts[name] = amount - 2 ^ math.max(0, bits - 3) + 1
  end
  return amounts
end

function needs.fit(amounts, room)
  for name, amount in pairs(amounts) do
    if (room[name] or 0) < amount then return false end
  end
  return true
end
