"""How people steer: what there is, why a job waits, and changes to many jobs at once. An engine is all it takes.

Reading order: `why.py` and `case.py` (why a job is not running), `view.py` (jobs as people see them), `watch.py`
(dead jobs for who goes on looking), `stats.py` (queues, workers, tasks, counts over time), `steer.py` (cancel, retry,
delete, pause), `command.py` (orders to workers), `facts.py` (what is kept for it), `cards.py` (who works),
`processes.py` (what they report of their processes), `attempts.py` (what kept attempts tell), `lookup.py` (one job),
`health.py` and `doctor.py` (whether work can be done, and what is wrong) and `backup.py`.

Nothing here prints, knows the user's code, or runs a job. What it gives is plain values, redacted; whoever shows them
on a screen passes their text through `core.redact.plain`.
"""
