-- Module: unique keys.

function keys.clear(row)
  local key = row[KEY]
  call('DEL', P .. 'k:' .. key)
  if row[KEY_UNTIL] > 0 then zput('keys', key, false) end
  row[KEY], row[KEY_UNTIL] = '', 0
  dirty[row] = true
end

function keys.take(row, key, until_us)
  row[KEY] = key
  call('SET', P .. 'k:' .. key, ids[row])
  if until_us > 0 then
    row[KEY_UNTIL] = until_us
    zput('keys', key, until_us)
  end
end

-- The job that blocks a key now.
function keys.holder(key)
  local id = call('GET', P .. 'k:' .. key)
  local row = id and row_of(id)
  if not row then return nil end
  if row[KEY_UNTIL] > 0 and row[KEY_UNTIL] <= now then
    if row[KEY] ~= '' then keys.clear(row) end
    return nil
  end
  return row
end
