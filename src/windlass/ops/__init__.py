"""How people steer: why a job waits. An engine is all it takes.

Reading order: `why.py` and `case.py` (why a job is not running), `cards.py` (who works) and `lookup.py` (one job).

Nothing here prints, knows the user's code, or runs a job.
"""
