"""Does it hold under fire? Long, seeded stories with real processes and real faults, and one checker for all.

Read in this order: `recorder.py` (what each process writes down), `workload.py` (which jobs), `worker.py` and
`writer.py` (the processes that are hurt), `checker.py` (the invariants of DESIGN §10 over what was written down and
what the store holds), then the stories of the store: `kills.py`, `power_cuts.py`, `lost_locks.py`, `machine.py`.

The stories of supervisors and runners stand on `runs.py` (what tasks write down), `tasks.py`, `supervisor.py` (one
whose claims and settles are written down) and `fleet.py` (who starts and stops them): `poison.py`, `recovery.py`,
`runners.py`, `frozen.py`.

Over a network, with the servers of tests/servers: `redis_faults.py`, for which `sender.py` is a process that sends and
`redis_store.py` says what is left in the end, `redis_outage.py` and `redis_machine.py`.

`make soak` runs them whole and writes docs/evidence/<story>.json; `tests/faults/` runs small seeded samples. No story
but `recovery` and `redis`, when they are whole, checks a time, and none touches a process, a mount or a file that it
did not make.
"""
