-- Part: records of plain jobs as bytes. It comes before what a verb does first. To unpack a record and to pack it again
-- took a third of the time of a claim and of a settlement. But the records of a batch differ mostly in three numbers, their
-- rank, due and created, each a mark and eight bytes. What stands before these, and what behind, is learnt once.

local byte, char = string.byte, string.char
local MARK, NUMBERS, LIST = 207, 27, 144

-- Fields as they stand in a record.
local function fields(...)
  return sub(cmsgpack.pack({ ... }), 2)
end

-- Whether three numbers stand behind that place.
local function are_numbers(packed, at)
  return byte(packed, at + 1) == MARK and byte(packed, at + 10) == MARK and byte(packed, at + 19) == MARK
end
