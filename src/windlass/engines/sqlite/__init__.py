"""The sqlite engine. Read `engine.py` and `hands.py` (what it holds while it is open), then `gate.py` and
`commit.py` (what makes a write safe), then `admission.py` (how a job becomes ready, and what its end sets free), then a
file per verb.

Every statement lies in `sql/` with its purpose, inputs, returns and invariant on top; the tables are in `schema/`.
Nothing here looks into a job's arguments, and nothing writes without holding the gate.
"""

from windlass.engines.sqlite.engine import SqliteEngine

__all__ = ["SqliteEngine"]
