-- Module: jobs whose record is gone, as after a failover that lost it, or cannot be read.

-- Ends a job that stands on the shelf of a state without a record that can be read: its request says what it holds.
-- False where nothing is left of it.
function damage.set_aside(id, shelf, state)
  zput(shelf, id, false)
  local head = call('EXISTS', P .. 'j:' .. id) == 1 and extras.head_of(id)
  if not head then return false end
  local row = intake.new_row(id, head)
  row[STATE] = state
  count(row, -1)
  if state == RUNNING then count_run(row, -1) end
  row[STATE] = 0
  row[EXTRAS] = HAS_EXTRA + HAS_LOG + HAS_ATTEMPTS + HAS_STEPS + HAS_RESULT
  if row[LANE] ~= '' and state ~= SCHEDULED then row[SLOT] = 1 end
  if row[UNTIL] > 0 and call('GET', P .. 'k:' .. head[R_KEY]) == id then row[KEY] = head[R_KEY] end
  ending.end_job(row, DEAD, 'corrupt')
  return true
end
