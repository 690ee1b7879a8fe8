-- Module: small shared values. `facts` keeps {version, expires, value} under each key, `factx` when those go that expire.

local F_VERSION, F_EXPIRES, F_VALUE = 1, 2, 3

-- The fact, unless it has expired.
function facts.read(key)
  local packed = call('HGET', P .. 'facts', key)
  local fact = packed and unpacked(packed)
  if not fact or (fact[F_EXPIRES] > 0 and fact[F_EXPIRES] <= now) then return nil end
  return fact
end

function facts.drop(key)
  call('HDEL', P .. 'facts', key)
  call('ZREM', P .. 'factx', key)
  call('HDEL', P .. 'rules', key)
  call('HDEL', P .. 'tat', key)
end
