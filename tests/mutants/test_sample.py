"""Three known bugs, drawn by a seed from the quick ones: with every `make test` the suite is shown to see.

All of them run in `make mutants`. To repeat a draw: WINDLASS_SEED=<seed>.
"""

from __future__ import annotations

import json
import os
import random

import pytest

from tests.mutants.patch import FOLDER, Mutant, all_mutants, read_mutant
from tests.mutants.runner import Baseline, apply_patch, copied_tree, try_mutant

SEED = int(os.environ.get("WINDLASS_SEED", "20"))
MUTANTS = all_mutants()
QUICK_S = 15.0
EVIDENCE = FOLDER.parents[1] / "docs" / "evidence" / "mutants.json"
TOOK_S = {each["name"]: each["seconds"] for each in json.loads(EVIDENCE.read_text())["mutants"]}
QUICK = [
    mutant for mutant in MUTANTS if all("::" in test for test in mutant.tests) and TOOK_S.get(mutant.name, 0) <= QUICK_S
]
"""Those whose tests are named one by one, and do not wait for long for what the bug keeps from coming."""


@pytest.mark.parametrize("mutant", random.Random(SEED).sample(QUICK, 3), ids=lambda mutant: mutant.name)
def test_the_suite_catches_a_bug_that_is_put_back(mutant: Mutant) -> None:
    with copied_tree() as tree:
        result = try_mutant(mutant, Baseline(tree))
    assert result.fate == "caught", f"seed {SEED}: {mutant.bug} {result.by}"


def test_every_patch_still_fits_the_code() -> None:
    with copied_tree() as tree:
        misfits = {mutant.name: said for mutant in MUTANTS if (said := apply_patch(tree, mutant, only_look=True))}
    assert misfits == {}


def test_every_patch_says_what_it_is() -> None:
    for path in FOLDER.glob("*.patch"):
        mutant = read_mutant(path)
        assert mutant.bug.endswith("."), path.name
        assert mutant.origin, path.name
        assert mutant.tests, path.name


def test_there_are_enough() -> None:
    assert len(MUTANTS) >= 25
