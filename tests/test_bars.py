"""The bars can be measured: each has its measurement, and what is measured on is what the engine would have written.

No time is asserted here; `make bars` does that.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench import bars, drains, latency, runners, supervised
from bench.__main__ import MEASUREMENTS, main
from bench.report import Report, judged, table
from bench.rounds import Round, Run
from bench.stores import (
    DONE,
    LANES,
    LIMITS,
    PAYLOAD,
    PLAIN,
    RAN_US,
    RESULT,
    TASK,
    Stock,
    connect,
    make,
)
from windlass.core.codec import encode_arguments
from windlass.core.ids import new_id
from windlass.core.job import Job, Request
from windlass.core.signature import Signature
from windlass.engines.protocol import Beat, Card, Order, Settlement, TallyQuery
from windlass.engines.sqlite import SqliteEngine

STOCK = Stock(plain=3, lanes=2, behind=2, finished=2)
INSTANTS = {"created_us", "due_us", "claimed_us", "started_us", "ended_us", "purge_us", "result_until_us"}
NUMBERS = {"fence", "settled_fence", "id", "worker", "rank", "place", "last_rank"}


def test_every_bar_has_a_measurement_and_every_measurement_a_bar() -> None:
    assert sorted(bar.name for bar in bars.load()) == sorted(MEASUREMENTS)


def test_an_unknown_field_of_a_bar_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "bars.toml"
    file.write_text(bars.FILE.read_text().replace("sentence =", "sentence_ =", 1))
    with pytest.raises(msgspec.ValidationError):
        bars.load(file)


@pytest.mark.parametrize(("kind", "low", "high"), [("at_least", False, True), ("at_most", True, False)])
def test_a_bar_is_judged_by_the_median_of_its_rounds(kind: str, low: bool, high: bool) -> None:
    bar = msgspec.structs.replace(bars.load()[0], kind=kind, value=2.0)
    for values, passed in (([1.0, 1.5, 9.0], low), ([1.0, 2.5, 9.0], high), ([1.0, 2.0, 9.0], True)):
        line = judged(bar, [Round(value, {}) for value in values], quick=False)
        assert line.passed is passed
        assert line.measured == sorted(values)[1]


def test_the_table_shows_measured_bar_and_pass() -> None:
    first, second = bars.load()[:2]
    good = judged(first, [Round(first.value + 1, {})], quick=False)
    bad = judged(second, [Round(second.value - 0.1, {})], quick=False)
    head, *lines = table([good, bad]).splitlines()
    assert head.split() == ["measured", "of", "rounds", "bar", "pass"]
    for line, bar, verdict, measured in (
        (lines[0], first, "pass", first.value + 1),
        (lines[1], second, "FAIL", second.value - 0.1),
    ):
        assert line.startswith(bar.name)
        assert f" {verdict} " in line
        assert f"≥ {bar.value:g} x" in line
        assert f"{measured:.2f} x" in line


@pytest.mark.timeout(300)
def test_a_quick_run_measures_every_bar_and_judges_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bars.json"
    assert main(["--quick", "--json", str(file)]) == 0
    report = msgspec.json.decode(file.read_bytes(), type=Report)
    assert [line.bar for line in report.bars] == bars.load()
    assert all(line.passed is None and math.isfinite(line.measured) and len(line.rounds) == 1 for line in report.bars)
    assert all(line.measured > 0 for line in report.bars if line.bar.name != "silent_lines")  # a difference of two
    assert report.machine["sqlite"]
    assert report.quick
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(report.bars)


def test_a_bar_that_is_missed_makes_the_run_fail(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("bench.__main__.NEEDED_BYTES", 0)
    bar = bars.load()[0]
    for value, code in ((bar.value, 0), (bar.value - 0.01, 1)):
        monkeypatch.setitem(MEASUREMENTS, bar.name, lambda _, value=value: [Round(value, {})])
        assert main([bar.name, "--json", str(tmp_path / "bars.json")]) == code


def test_a_bar_that_does_not_exist_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no_such_bar"]) == 2
    assert "no_such_bar" in capsys.readouterr().err


def test_prepared_stores_are_what_the_engine_itself_writes(tmp_path: Path) -> None:
    prepared, written = tmp_path / "prepared.db", tmp_path / "written.db"
    make(prepared, STOCK)
    _write(written)
    ours, theirs = _content(prepared), _content(written)
    for name in theirs:
        assert ours[name] == theirs[name], name


def test_prepared_stores_have_true_counters(tmp_path: Path) -> None:
    make(tmp_path / "jobs.db", STOCK)
    engine = SqliteEngine(tmp_path / "jobs.db", LIMITS)
    engine.open()
    counts = {(count.queue, count.state.value): count.n for count in engine.tally(TallyQuery()).counts}
    engine.close()
    assert counts == {(DONE, "succeeded"): 2, (PLAIN, "ready"): 3, (LANES, "ready"): 2, (LANES, "held"): 4}


def test_a_payload_is_what_a_sender_would_have_sealed() -> None:
    def noop(text: str) -> None:
        pass

    args, kwargs = Signature.of(noop).decode(PAYLOAD)
    assert len(PAYLOAD) == 200
    assert (encode_arguments(args, kwargs), kwargs) == (PAYLOAD, {})


@pytest.mark.parametrize("run", [drains.run_solo, drains.run_threads, drains.run_aio, runners.run_supervised])
def test_a_worker_that_did_not_run_every_job_has_no_figure(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drains, "LONGEST_S", 0.3)
    monkeypatch.setattr(supervised, "LONGEST_S", 1.0)
    make(tmp_path / "jobs.db", STOCK)
    with pytest.raises(RuntimeError, match=f"left 1 of {STOCK.plain + 1} jobs undone"):
        next(run(tmp_path / "jobs.db", [STOCK.plain + 1]))


def test_a_worker_that_did_not_start_every_job_has_no_latency(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "LONGEST_S", 0.1)
    make(tmp_path / "jobs.db", Stock())
    with latency.Idle(tmp_path / "jobs.db") as worker, pytest.raises(RuntimeError, match="ran 0 jobs instead of 1"):
        worker.waits_ns(1)


def _write(path: Path) -> None:
    """The same stock, by the engine."""
    engine, worker = SqliteEngine(path, LIMITS), new_id()
    engine.open()
    engine.renew(Beat(card=Card(worker=worker), beat=0))
    _insert(engine, DONE, STOCK.finished)
    claims = engine.claim(Order(worker=worker, ticket=1)).claims
    engine.settle([Settlement(id=claim.id, fence=claim.fence, result=RESULT, ran_us=RAN_US) for claim in claims])
    _insert(engine, PLAIN, STOCK.plain)
    for _ in range(1 + STOCK.behind):
        for lane in range(STOCK.lanes):
            _insert(engine, LANES, 1, lane=f"customer-{lane}")
    engine.close()


def _insert(engine: SqliteEngine, queue: str, count: int, lane: str | None = None) -> None:
    requests = [Request(id=new_id(), task=TASK, queue=queue, payload=PAYLOAD, lane=lane) for _ in range(count)]
    engine.insert([Job(request=request) for request in requests])


def _content(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Every table that claim and settle touch, with instants and ids replaced by whether they are there."""
    database = connect(path)
    try:
        content = {name: _rows(database, name) for name in ("job", "lane", "stream")}
        content["tally"] = [row for row in _rows(database, "tally") if row["n"]]
        return content
    finally:
        database.close()


def _rows(database: Any, name: str) -> list[dict[str, Any]]:
    columns: list[str] = [column for (column,) in database.execute(f"SELECT name FROM pragma_table_info('{name}')")]
    rows: list[dict[str, Any]] = []
    for values in database.execute(f"SELECT * FROM {name} ORDER BY 1, 2, 3"):
        row: dict[str, Any] = dict(zip(columns, values, strict=True))
        rows.append({key: bool(value) if key in INSTANTS | NUMBERS else value for key, value in row.items()})
    return rows
