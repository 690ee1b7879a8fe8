"""Fails with a chance: sometimes.py --chance 0.2. Never with 0, always with 1."""

import argparse
import random
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--chance", type=float, required=True)
chance = parser.parse_args().chance
print(f"it may fail: {chance:.0%}")
if random.random() < chance:
    print("the dice say no", file=sys.stderr)
    sys.exit(1)
print("the dice say yes")
