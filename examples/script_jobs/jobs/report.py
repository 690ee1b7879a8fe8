"""Writes a report of a kind: report.py --type daily."""

import argparse

from letterhead import HEAD  # its neighbour in this folder

parser = argparse.ArgumentParser()
parser.add_argument("--type", required=True)
print(HEAD)
print(f"the {parser.parse_args().type} report")
