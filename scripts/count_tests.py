"""Print the sum of all JUnit reports in a folder as one line: `N passed, N failed` (and `, N skipped`).

    python scripts/count_tests.py <folder>

A missing or unreadable report counts as a failure, so a run that crashed is never shown as a good one.
An expected failure (xfail) counts as skipped, as pytest reports it.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree


def verdicts(report: Path) -> Counter[str]:
    """Count each test of one report once, a failure of its set-up or clean-up included."""
    try:
        root = ElementTree.parse(report).getroot()
    except (OSError, ElementTree.ParseError) as error:
        print(f"{report.name}: no readable report ({error})", file=sys.stderr)
        return Counter(failed=1)
    seen: dict[tuple[str, str], str] = {}
    for case in root.iter("testcase"):
        key = (case.get("classname", ""), case.get("name", ""))
        if case.find("failure") is not None or case.find("error") is not None:
            seen[key] = "failed"
        elif case.find("skipped") is not None:
            seen.setdefault(key, "skipped")
        else:
            seen.setdefault(key, "passed")
    return Counter(seen.values())


def main(folder: Path) -> int:
    """Print the line; the exit status is 0 only if something passed and nothing failed."""
    reports = {folder / "main.xml", *folder.glob("*.xml")}
    total = sum((verdicts(report) for report in sorted(reports)), Counter[str]())
    line = f"{total['passed']} passed, {total['failed']} failed"
    if total["skipped"]:
        line += f", {total['skipped']} skipped"
    sys.stderr.flush()
    print(line, flush=True)
    return 0 if total["passed"] and not total["failed"] else 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Say which folder holds the reports: python scripts/count_tests.py <folder>")
    sys.exit(main(Path(sys.argv[1])))
