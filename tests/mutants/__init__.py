"""Would the suite notice? Known bugs, most of them from other queues, put back one at a time.

Each `<name>.patch` re-creates one bug; its first lines say which, where it comes from and which tests must catch it.
`patch.py` reads them, `runner.py` runs the tests on a mutated copy of the tree, `__main__.py` prints the table.

`make mutants` runs all and writes docs/evidence/mutants.json; `python -m tests.mutants NAME…` runs some;
`test_sample.py` runs three quick ones, drawn by a seed, with every `make test`.
"""
