"""What a job is: pure values and rules. Nothing here does any I/O but reading settings and the clock, and
what the rooms above ask of the operating system (`system/`).

Reading order: `job.py` and `lifecycle.py` (what a job is and how it moves), `rank.py`, `gates.py` and `pick.py`
(which job runs next), `retry.py`, `rates.py` and `breaker.py` (when it may run again), `codec.py` (how arguments
travel), `intake.py`, `names.py` and `limits.py` (what may enter), `settings.py`, `errors.py`, `events.py`, `redact.py`
and `secret.py` (what may be shown), `info.py` and `commands.py` (what a worker says, and what it is told),
`plural.py` (numbers in sentences), `system/` (what differs between operating systems).
"""
