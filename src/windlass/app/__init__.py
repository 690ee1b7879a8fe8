"""How you define and send: the app, its tasks, and handles of what was sent.

Reading order: `app.py` (the user's object), `functions.py` and `task.py` (a function that can be sent), `options.py`
(what can be said of a task or a send), `scripts.py`, `holding.py` (what an app has open), `handle.py` and `handles.py`
(a job's result, and those of many), `waiter.py` and `asker.py` (how they are waited for), `batching.py` (sending from
asyncio), `context.py` (what a running task knows of its job), `endings.py` (how it says its own end), `middleware.py`,
`resources.py`, `discovery.py` and `locate.py` (finding tasks and apps by name).

Nothing here runs a job: that is `windlass.worker`. Nothing here opens a store before the first send.
"""
