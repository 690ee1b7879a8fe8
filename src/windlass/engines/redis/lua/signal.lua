-- signal: hints by hand: there is work on a queue, a job has ended, a worker or a listener has an order.
-- with: telling rows shelves finish
--
-- KEYS    meta
-- ARGV    now, schema, then for each: kind, queue or id
-- returns nothing
-- Only ever a hint: who does not listen hears nothing.

for index = 3, #ARGV, 2 do
  local kind, what = ARGV[index], ARGV[index + 1]
  if kind == 'work' then
    ring(what)
  else
    call('PUBLISH', P .. kind .. ':' .. what, '')
  end
end
