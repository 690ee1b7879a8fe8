-- Module: jobs that come with something behind them, as from another store.

-- The places in `past` are those that requests.py writes.
function imports.bring_back(row, past, result, parents)
  row[FENCE], row[SETTLED], row[ATTEMPT], row[CRASHES] = past[3], past[4], past[5], past[6]
  row[LOSSES], row[SUSPECT], row[RANK], row[DUE], row[CREATED] = past[7], past[8], past[9], past[10], past[11]
  row[QUEUE], row[HEIR], row[HEIR_OF] = past[2], past[15], past[16]
  extras.set_failure(row, past[17], past[18])
  for _, attempt in ipairs(past[19]) do call('RPUSH', P .. 'a:' .. ids[row], cmsgpack.pack(attempt)) end
  if #past[19] > 0 then extras.mark(row, HAS_ATTEMPTS) end
  local state, ended_us = past[1], past[12] >= 0 and past[12] or now
  if state >= SUCCEEDED then
    if past[20] == 1 then
      texts[P .. 'o:' .. ids[row]] = result
      extras.mark(row, HAS_RESULT)
    end
    row[RESULT_UNTIL] = ended_us + limits[L_KEEP_RESULT]
    ending.end_job(row, state, past[13], nil, ended_us)
  elseif family.join(row, parents or {}) then
    doors.place(row, state == READY or state == RUNNING)
  else
    ending.end_job(row, CANCELLED, 'parent')
  end
end
