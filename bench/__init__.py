"""bench: how fast is it, and beside what? `python -m bench` (`make bars`) measures every bar of bars.toml.

In reading order: `bars.toml` and `bars.py` (what must be reached), `stores.py` (files with a million jobs, made once
and copied), `rounds.py` (two contestants in turn, each in a process of its own), `bare.py` (the loop we are held
against), then a family of measurements each: of the engine `claims.py`, `inserts.py`, `growth.py`, of the worker
`drains.py`, `latency.py`, `footprint.py`, of the worker with processes `runners.py` (`supervised.py` starts it,
its tasks are in `tasks.py` and `work.py`); `report.py` (table, evidence).

`race/` is the other half: we and other queues, each in an environment of its own (`python -m bench.race`, `make race`).
`anatomy/` takes a drain of that race apart: which step of a job costs what (`python -m bench.anatomy`, `make anatomy`).

Nothing here is imported by the package, and no figure is taken from an earlier run: every ratio comes from one run.
"""
