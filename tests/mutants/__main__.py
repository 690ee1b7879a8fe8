"""`python -m tests.mutants [NAME…]`: puts each known bug back and shows which test catches it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence

from tests.mutants.patch import BadPatch, Mutant, all_mutants
from tests.mutants.runner import ROOT, Result, try_mutants

EVIDENCE = ROOT / "docs" / "evidence" / "mutants.json"


def main(names: Sequence[str]) -> int:
    """0 only if every mutant asked for was tried, and none survived."""
    try:
        known = {mutant.name: mutant for mutant in all_mutants()}
    except BadPatch as error:
        print(error, file=sys.stderr)
        return 1
    strangers = [name for name in names if name not in known]
    if strangers:
        print(f"There is no mutant {', '.join(strangers)}. There are: {', '.join(known)}.", file=sys.stderr)
        return 1
    chosen = [known[name] for name in names] or list(known.values())
    began = time.monotonic()
    results = show(chosen)
    fates = Counter(result.fate for result in results)
    print(f"{len(results)} mutants: " + ", ".join(f"{n} {fate}" for fate, n in fates.items()))
    if not names:
        write_evidence(results, round(time.monotonic() - began, 1))
    return 0 if results and set(fates) <= {"caught", "not run"} else 1


def show(chosen: Sequence[Mutant]) -> list[Result]:
    """The table, line by line as results come."""
    width = max(len(mutant.name) for mutant in chosen)
    print(f"{'mutant':<{width}}  {'seconds':>7}  caught by")
    results: list[Result] = []
    for result in try_mutants(chosen, os.cpu_count() or 1):
        by = result.by if result.fate == "caught" else f"{result.fate.upper()}: {result.by}"
        print(f"{result.mutant.name:<{width}}  {result.seconds:>7}  {by}", flush=True)
        results.append(result)
    return results


def write_evidence(results: Sequence[Result], seconds: float) -> None:
    """docs/evidence/mutants.json, as far as git can tell what was tested."""
    fates = Counter(result.fate for result in results)
    evidence = {
        "name": "mutants",
        "commit": _git("rev-parse", "HEAD"),
        "dirty": bool(_git("status", "--porcelain", "--", ".", ":(exclude)docs/evidence")),
        "counts": {"mutants": len(results), **fates},
        "duration_s": seconds,
        "mutants": [
            {
                "name": result.mutant.name,
                "bug": result.mutant.bug,
                "from": result.mutant.origin,
                "fate": result.fate,
                "by": result.by,
                "seconds": result.seconds,
            }
            for result in results
        ],
    }
    EVIDENCE.parent.mkdir(parents=True, exist_ok=True)
    EVIDENCE.write_text(json.dumps(evidence, indent=2, ensure_ascii=False) + "\n")


def _git(*arguments: str) -> str | None:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
