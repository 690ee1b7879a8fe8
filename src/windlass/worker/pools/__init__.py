"""Where tasks are called: `threads.py` (one slot is `solo`), `aio.py`, and both at once as `auto` (`both.py`).

A pool takes claims and puts settlements down. It alone knows how a running task is interrupted.
"""
