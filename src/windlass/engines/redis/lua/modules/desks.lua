-- Module: the store's side of a worker's card: {beat, seen, unbroken since, lost, ticket, lease, knows all tasks}.

local D_BEAT, D_SEEN, D_UNBROKEN, D_LOST, D_TICKET, D_LEASE, D_ALL = 1, 2, 3, 4, 5, 6, 7

-- The desk of a worker; nothing where there is none, or it cannot be read.
function desks.of(worker)
  local packed = call('HGET', P .. 'desks', worker)
  return packed and unpacked(packed)
end

-- Takes a card away, and the order that only its worker could have followed.
function desks.forget(worker)
  call('HDEL', P .. 'desks', worker)
  call('HDEL', P .. 'cards', worker)
  call('HDEL', P .. 'facts', 'worker/' .. worker)
  call('DEL', P .. 'tk:' .. worker, P .. 'asked:' .. worker)
end
