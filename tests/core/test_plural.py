"""Numbers in sentences: one is one, and many are apart by commas."""

from __future__ import annotations

import re
from pathlib import Path

import windlass
from windlass.core.plural import agreeing, number_of


def test_one_is_one_and_others_are_many() -> None:
    assert [number_of(count) for count in (0, 1, 2, 12_000)] == ["0 jobs", "1 job", "2 jobs", "12,000 jobs"]
    assert [number_of(count, "task") for count in (0, 1, 2)] == ["0 tasks", "1 task", "2 tasks"]
    assert [agreeing(count) for count in (0, 1, 2)] == ["are", "is", "are"]
    assert agreeing(1, "takes", "take") == "takes"


def test_nothing_else_counts_jobs_tasks_workers_or_slots_in_a_sentence() -> None:
    """`{len(tasks)} tasks` is wrong for one. What refuses a number may show it as it was given."""
    counted = re.compile(r"(\{[^{}]*\}|%d) (jobs|tasks|workers|slots|arguments|checks|queues)\b")
    package = Path(windlass.__file__).parent
    found = [
        f"{file.relative_to(package)}: {line.strip()}"
        for file in sorted(package.rglob("*.py"))
        if "testing" not in file.parts
        for line in file.read_text().splitlines()
        if counted.search(line) and "BadValue" not in line
    ]
    assert found == []
