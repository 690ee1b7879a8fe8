"""How jobs run: one worker, a handful of loops with a job title each, and slots in which tasks are called.

    engine.claim ─► consumer ─► desk ─► pool (slots) ─► executor ─► settler ─► engine.settle

Reading order: `worker.py` (what a user has), `kind.py` (which pools there are), `service.py` (what every loop is),
`desk.py` (what the worker holds), `consumer.py`, `executor.py` (one attempt, step by step), `settler.py`,
`heartbeat.py`, `stocktaking.py`, `janitor.py`, `watchman.py`, `pools/` (where tasks are called), `failure.py`,
`deaths.py`.

Nothing here knows an engine by name, and no task is called outside `pools/`.
"""
