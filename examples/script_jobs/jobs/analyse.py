"""Pretends to read a file in so many steps, and tells of each: analyse.py FILE STEPS."""

import sys
import time

file, steps = sys.argv[1], int(sys.argv[2])
print(f"analysing {file}")
for step in range(1, steps + 1):
    time.sleep(0.2)  # what takes its time
    print(f"step {step} of {steps}")
print(f"{file} has no header", file=sys.stderr)
print("done")
