"""The race can be run: everybody is asked alike, failures are told, and the tables say who ran at which version.

No time is asserted here, and no other queue is installed: ours and the floor stand for them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from bench import bars
from bench.race import entries, table, verdicts
from bench.race.__main__ import EVIDENCE, main
from bench.race.contestant import waits_ms
from bench.race.entries import Product
from bench.race.result import Finish, Result, load

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the race reads /proc"),
    pytest.mark.timeout(300),
]

BARE = next(product for product in entries.load() if product.kind == "floor")


def written(folder: Path, product: Product) -> Path:
    """Other entries: this product alone. JSON has the same words for texts, lists and tables as TOML in one line."""
    file = folder / "entries.toml"
    fields = msgspec.to_builtins(product)
    lines = [f"{name} = {toml(value)}" for name, value in fields.items()]
    file.write_text("[[product]]\n" + "\n".join(lines) + "\n")
    return file


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(each)}" for key, each in value.items()) + "}"  # pyright: ignore
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml(each) for each in value) + "]"  # pyright: ignore
    return msgspec.json.encode(value).decode()


def test_a_quick_race_of_ours_and_the_floor_has_every_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "race.json"
    assert main(["--quick", "--only", "windlass", "bare", "--json", str(file)]) == 0
    result = load(file)
    assert [finish.entry.name for finish in result.finishes] == ["windlass", "bare"]
    for finish in result.finishes:
        assert finish.error is None
        assert set(table.COLUMNS) - set(finish.figures) == set(finish.product.lacks)
        assert all(len(values) == 1 and values[0] > 0 for values in finish.figures.values())
    assert [line.passed for line in result.bars] == [None]
    assert capsys.readouterr().out == table.tables(result) + "\n"


@pytest.mark.parametrize(("fails", "code"), [("", 1), ("another error", 1), ("No such file", 0)])
def test_a_contestant_that_fails_fails_the_run_unless_that_error_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fails: str, code: int
) -> None:
    broken = msgspec.structs.replace(BARE, worker="python no_such_worker.py", fails=fails)
    assert main(["--quick", "--entries", str(written(tmp_path, broken))]) == code
    said = capsys.readouterr().out
    assert "failed: drain: The worker ended with 2" in said
    assert "No such file" in said
    assert "bare, windlass " in said


def test_a_version_that_cannot_be_installed_fails_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = msgspec.structs.replace(BARE, seat="no_such_seat", requirements=["windlass-no-such-package==0.0.1"])
    assert main(["--quick", "--entries", str(written(tmp_path, missing))]) == 1
    assert "windlass-no-such-package 0.0.1, failed: install:" in capsys.readouterr().out


def test_an_entry_that_does_not_exist_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "no_such_entry"]) == 2
    assert "no_such_entry" in capsys.readouterr().err


def test_an_unknown_field_of_an_entry_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "entries.toml"
    file.write_text(entries.FILE.read_text().replace("results =", "results_ =", 1))
    with pytest.raises(msgspec.ValidationError):
        entries.load(file)


def test_waits_are_told_by_the_number_of_the_job_in_whatever_order_they_ran() -> None:
    first, late = (0, 500), (2, 9_000_000)
    assert waits_ms([first, (1, 3_000_000), late, (0, 4_000_000)], [1_000_000, 2_000_000]) == [1.0, 3.0]
    with pytest.raises(RuntimeError, match="Of 2 jobs that were sent, 1 started"):
        waits_ms([first, late, (0, 4_000_000)], [1_000_000, 2_000_000])


def finish(name: str, drains: list[float], reruns: list[float] | None = None) -> Finish:
    product = next(p for p in entries.load() if name in [entry.name for entry in p.entry])
    entry = next(entry for entry in product.entry if entry.name == name)
    figures = {"drain_per_s": drains} | ({"rerun_s": reruns} if reruns else {})
    return Finish(product=product, entry=entry, version="1", backlog=(1, 2), figures=figures)


def test_bars_compare_within_a_round_and_the_floor_is_no_peer() -> None:
    assert sorted(verdicts.RULES) == sorted(bar.name for bar in bars.load(verdicts.FILE))
    lines = verdicts.verdicts(
        [
            finish("windlass", [10.0, 60.0, 10.0], [1.0, 1.5, 1.0]),
            finish("windlass-solo", [20.0, 100.0, 20.0], [2.0, 1.0, 3.0]),
            finish("huey-fsync", [2.0, 10.0, 4.0]),
            finish("flexiq", [1.0, 20.0, 2.0]),
            finish("litequeue", [4.0, 1.0, 4.0]),
            finish("bare", [1e6, 1e6, 1e6]),
        ],
        quick=False,
    )
    assert {line.bar.name: (line.measured, line.passed) for line in lines} == {
        "solo_huey": (10.0, True),
        "default_huey": (5.0, True),
        "default_best": (2.5, False),
        "rerun": (2.0, True),
    }


def test_the_page_is_built_from_the_evidence_and_names_every_pinned_version() -> None:
    result = load(EVIDENCE)
    page = table.PAGE.read_text(encoding="utf-8")
    assert table.tables(result) in page
    for product in entries.load():
        for pin in product.requirements:
            assert pin.replace("==", " ") in page
    assert [f.entry for f in result.finishes] == [entry for product in entries.load() for entry in product.entry]


def test_tables_go_between_the_markers_and_nowhere_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    begin, end = (marker.format(group="embedded") for marker in (table.BEGIN, table.END))
    page.write_text(f"above\n{begin}\nold\n{end}\nbelow\n")
    result = msgspec.structs.replace(load(EVIDENCE), finishes=[finish("bare", [1.0])], bars=[])
    assert isinstance(result, Result)
    table.put(page, result)
    assert page.read_text() == f"above\n{begin}\n\n{table.tables(result)}\n\n{end}\nbelow\n"
    page.write_text("no markers")
    with pytest.raises(ValueError, match="has no lines"):
        table.put(page, result)
