"""Sends three scripts to be run: one now, one a minute later, one that fails now and then.

    python producer.py [--minute SECONDS] [--chance CHANCE]

Their paths are as a worker sees them that was started in this folder: `windlass worker --scripts jobs/`.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta

from windlass import App


def main() -> None:
    """Sends, and prints the id of each job, when it is due, and its name."""
    parser = argparse.ArgumentParser(description="Sends three scripts to be run.")
    parser.add_argument("--minute", type=float, default=60, metavar="SECONDS", help="how long a minute is")
    parser.add_argument("--chance", default="0.2", help="with which the third one fails, from 0 to 1")
    said = parser.parse_args()

    with App() as app:  # WINDLASS_URL, else windlass.db in this folder
        now = app.script("jobs/analyse.py", args=["orders.csv", "5"], name="Immediate analysis", memory="256MB")
        print(now.id, "now", "Immediate analysis", sep="\t")

        then = datetime.now(UTC) + timedelta(seconds=said.minute)
        later = app.script("jobs/report.py", args=["--type", "daily"], name="Scheduled report", memory="512MB", at=then)
        print(later.id, then.isoformat(), "Scheduled report", sep="\t")

        risky = app.script("jobs/sometimes.py", args=["--chance", said.chance], name="Risky check", memory="128MB")
        print(risky.id, "now", "Risky check", sep="\t")


if __name__ == "__main__":
    main()
