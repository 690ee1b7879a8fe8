"""Where jobs live: one protocol of sixteen verbs, and an engine for each kind of store.

Read `protocol.py` first, then `memory/` (the rules in plain Python), then `sqlite/` (the same rules on a file).
`connect.py` turns a URL into an engine; `schemes.py` says which URLs are Redis's. Every engine's folder has the same
plan: `engine.py` with the verbs and a file per verb. Engines do not know one another, never look into arguments, and
are the only ones to compare times.
"""
