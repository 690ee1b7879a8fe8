"""docs/reference/errors.md lists every error of core/errors.py."""

from __future__ import annotations

from pathlib import Path

from scripts.write_reference import WHAT_TO_DO, error_tree, errors_table, renewed
from windlass.core import errors
from windlass.core.errors import WindlassError

PAGE = (Path(__file__).resolve().parent.parent.parent / "docs/reference/errors.md").read_text(encoding="utf-8")


def test_the_table_is_that_of_the_code() -> None:
    assert renewed(PAGE, errors_table()) == PAGE, "run: python scripts/write_reference.py"


def test_every_error_class_is_in_the_tree_once() -> None:
    found = [kind for _, kind in error_tree()]
    defined = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, WindlassError)]
    assert sorted(kind.__name__ for kind in found) == sorted(kind.__name__ for kind in defined)


def test_every_code_is_one_error_and_has_words() -> None:
    codes = [kind.code for _, kind in error_tree()]
    assert len(set(codes)) == len(codes)
    assert set(codes) == set(WHAT_TO_DO)
