"""bench.race: how fast are we beside the others? `python -m bench.race --group embedded|redis` (`make race GROUP=…`).

In reading order: `embedded.toml`, `redis.toml` and `entries.py` (who races, at which version, how it is started, what
it promises), `bars.toml` (what must be reached), `venvs.py` (an environment for each), `tree.py` (a worker with all its
processes), `ground.py` (where jobs lie: `files.py`, or `server.py` and the long way to it, `far.py`), `rabbitmq.py` and
`jemalloc.py` (what else is needed there, by way of `debian.py`), `contestant.py` (what is asked of every contestant,
alike), `groups.py` (who is asked what, where), `rounds.py` (who runs when),
`result.py`, `table.py` and `verdicts.py` (JSON, Markdown and bars of a run). `seats/` is what runs inside the
contestants' own environments: a small module for each, and `seat.py` or `seat.js`, which asks it to send.

No figure is taken from an earlier run, and nothing of a contestant runs in the process that measures.
"""
