"""How jobs run: an office that claims and settles, a staff that runs tasks, in one process or in several.

    engine.claim ─► consumer ─► desk ─► pool (slots) ─► executor ─► settler ─► engine.settle
                                    ╎ in a runner process, if there are any ╎

Reading order: `worker.py` and `supervisor.py` (what a user has), `kind.py` (which pools there are), `staff.py` (the
seam between the two halves).

The office: `service.py` (what every loop is), `outage.py`, `crew.py`, `desk.py` (what the worker holds), `consumer.py`,
`budget.py`, `lease.py`, `settler.py`, `heartbeat.py`, `stocktaking.py`, `janitor.py`, `watchdog.py`, `bellman.py`,
`asked.py`, `lifeline.py`.

The staff of one process: `in_process.py`, `executor.py` (one attempt, step by step), `watchman.py`, `room.py`, `pools/`
(where tasks are called), `notes.py`, `failure.py`.

The staff of a supervisor: `plan.py`, `runners.py`, `roster.py`, `runner_process.py`, `dispatcher.py` (who gets which
claim), `suspects.py`, `foreman.py`, `warden.py`, `estate.py`, `judging.py` and `deaths.py` (what the dead leave),
`census.py`; what both sides share, `frames.py` and `page.py`; and the other side, `runner.py`.

Nothing here knows an engine by name, no task is called outside `pools/`, and a supervisor imports none of the user's
code.
"""
