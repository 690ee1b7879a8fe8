-- Part: modules that few calls need are defined when one of them is first used: to define a function takes time at every call
-- of the script.

local define
local ASLEEP = {
  __index = function(module, name)
    define()
    return module[name]
  end,
}
