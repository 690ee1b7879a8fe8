-- Module: what few jobs have besides their record: an error, attempts, the part of a request that the store may read.

-- Notes that a job has something.
function extras.mark(row, bit)
  if row[EXTRAS] % (2 * bit) < bit then row[EXTRAS] = row[EXTRAS] + bit end
end

function extras.set_failure(row, failure, print)
  local id = ids[row]
  if failure ~= '' then
    call('HSET', P .. 'x:' .. id, 'failure', failure)
    extras.mark(row, HAS_EXTRA)
  elseif row[EXTRAS] % 2 == HAS_EXTRA then
    call('HDEL', P .. 'x:' .. id, 'failure')
  end
  if row[PRINT] ~= '' and row[PRINT] ~= print then zput('fp:' .. row[PRINT], id, false) end
  row[PRINT] = print
end

function extras.drop_result(row)
  texts[P .. 'o:' .. ids[row]] = nil
  call('DEL', P .. 'o:' .. ids[row])
  row[EXTRAS] = row[EXTRAS] - HAS_RESULT
end

-- Keeps an attempt: {attempt, fence, outcome, worker, started, ended, error}.
function extras.remember(row, outcome, failure)
  local key = P .. 'a:' .. ids[row]
  call('RPUSH', key, cmsgpack.pack({ row[ATTEMPT], row[FENCE], outcome, row[WORKER], row[STARTED], now, failure }))
  call('LTRIM', key, -ATTEMPTS_KEPT, -1)
  extras.mark(row, HAS_ATTEMPTS)
end

-- The head of a request; nothing where it cannot be read. Its payload stays where it is.
function extras.head_of(id)
  local size = call('GETRANGE', P .. 'r:' .. id, 0, 3)
  if #size < 4 then return nil end
  return unpacked(call('GETRANGE', P .. 'r:' .. id, 8, 7 + struct.unpack('>I4', size)))
end
