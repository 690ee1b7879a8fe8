"""Lines and progress of running jobs, on their way to the store."""

from __future__ import annotations

MOST_NOTES = 20_000
"""How many may wait; what comes beyond is dropped and counted."""
DROPPED = "%d lines of jobs' logs were dropped: they came faster than they can be stored."
