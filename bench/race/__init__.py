"""bench.race: how fast are we beside the others? `python -m bench.race --group embedded` (`make race`).

In reading order: `entries.toml` and `entries.py` (who races, at which version, how it is started, what it promises),
`bars.toml` (what must be reached), `venvs.py` (an environment for each), `tree.py` (a worker with all its processes),
`contestant.py` (what is asked of every contestant, alike), `rounds.py` (who runs when), `result.py`, `table.py` and
`verdicts.py` (JSON, Markdown and bars of a run). `seats/` is what runs inside the contestants' own environments: a
small module for each, and `seat.py`, which asks it to send.

No figure is taken from an earlier run, and nothing of a contestant runs in the process that measures.
"""
