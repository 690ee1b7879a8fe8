-- Part: the store's limits, as ARGV[3] says them: {aging step, keep succeeded, dead, cancelled, expired, result, log bytes,
-- successes kept}. How long an ended job is kept stands at the number of its state and L_KEEP.

local limits = cmsgpack.unpack(ARGV[3])
local L_AGING, L_KEEP, L_KEEP_RESULT, L_LOG_BYTES, L_SUCCESSES = 1, -3, 6, 7, 8
