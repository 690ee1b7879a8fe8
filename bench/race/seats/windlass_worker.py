"""A worker of Windlass in a process of its own: `python windlass_worker.py [--pool solo]`.

It stands for the command `windlass worker`, which does not exist yet. entries.toml names it in one place.
"""

import argparse

from windlass_sqlite import app

from windlass import Worker

parser = argparse.ArgumentParser()
parser.add_argument("--pool", default="auto")
Worker(app, pool=parser.parse_args().pool).run()
