"""Where a job's microseconds go can be measured: stacks find their step, columns add up, the table has its place.

No time is asserted here.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from bench.anatomy import rights, sheet, spy, verbs
from bench.anatomy.__main__ import COLUMNS, EVIDENCE, main
from bench.anatomy.result import Column, Drain, Result, load
from bench.anatomy.steps import REST, STEPS, UNKNOWN, Frame, Process, Stack, divided, step_of, unknown
from bench.race import entries, table
from bench.race.contestant import SEATS
from bench.race.groups import REDIS
from bench.report import ROOT
from windlass.engines.redis.scripts import script

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it reads /proc"),
    pytest.mark.timeout(300),
]

DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
LOOP = (
    Frame("threading.py", "Thread.run"),
    Frame("windlass/worker/service.py", "Service._loop"),
    Frame("windlass/worker/service.py", "Service._step"),
)
SETTLING = (
    *LOOP,
    Frame("windlass/worker/settler.py", "Settler.tick"),
    Frame("windlass/engines/redis/engine.py", "RedisEngine.settle"),
)


@pytest.mark.parametrize(
    ("process", "stack", "step"),
    [
        ("supervisor", SETTLING, "settle"),
        ("supervisor", (*SETTLING, Frame("windlass/engines/redis/engine.py", "RedisEngine._run")), "round trip"),
        ("supervisor", (*SETTLING, Frame("windlass/engines/redis/wire.py", "Wire.call")), "round trip"),
        ("supervisor", (*SETTLING, Frame("windlass/core/clock.py", "SystemClock.now_us")), "settle"),
        (
            "supervisor",
            (*LOOP, Frame("windlass/engines/redis/engine.py", "RedisEngine.claim.<locals>.<genexpr>")),
            "decode",
        ),
        ("supervisor", LOOP, REST),
        ("supervisor", (*LOOP, Frame("windlass/core/clock.py", "SystemClock.monotonic_us")), REST),
        ("supervisor", (*LOOP, Frame("windlass/worker/newcomer.py", "Newcomer.tick")), UNKNOWN),
        ("supervisor", (Frame("socket.py", "socket.accept"),), UNKNOWN),
        ("supervisor", (), UNKNOWN),
        ("runner", (Frame("windlass/worker/executor.py", "Executor.load"),), "run"),
        ("runner", (Frame("windlass/worker/executor.py", "Executor.bind"),), "decode"),
        ("runner", (Frame("windlass/worker/pools/aio.py", "_"), Frame("marks.py", "awork")), "the task itself"),
    ],
)  # fmt: skip
def test_the_innermost_frame_that_is_named_decides(process: Process, stack: Stack, step: str) -> None:
    assert step_of(stack, process) == step


def test_what_the_table_lacks_is_named() -> None:
    newcomer = (*LOOP, Frame("windlass/worker/newcomer.py", "Newcomer.tick"), Frame("queue.py", "Queue.get"))
    samples = {SETTLING: 3, newcomer: 2}
    assert divided(samples, "supervisor") == {"settle": 3, UNKNOWN: 2}
    assert unknown(samples, "supervisor") == {"windlass/worker/newcomer.py Newcomer.tick": 2}


def test_every_place_in_the_table_is_in_the_code() -> None:
    places = {place for steps in STEPS.values() for those in steps.values() for place in those}
    assert [place for place in sorted(places) if not is_there(*place.split())] == []


def is_there(name: str, function: str = "") -> bool:
    """Whether the file is there and defines that function."""
    file = ROOT / "src" / name if name.startswith("windlass/") else SEATS / name
    inside: list[ast.stmt] = ast.parse(file.read_text(encoding="utf-8")).body
    for part in filter(None, function.split(".")):
        found = [node for node in inside if isinstance(node, DEFINITIONS) and node.name == part]
        if not found:
            return False
        inside = found[0].body
    return True


def test_raw_stacks_are_read() -> None:
    lines = [
        "Thread.run (threading.py);Reader.feed.<locals>.f (windlass/worker/frames.py) 12",
        "<module> (<frozen runpy>);main (windlass/worker/runner.py) 1",
        " 3",
    ]
    assert spy.read(lines) == {
        (Frame("threading.py", "Thread.run"), Frame("windlass/worker/frames.py", "Reader.feed.<locals>.f")): 12,
        (Frame("<frozen runpy>", "<module>"), Frame("windlass/worker/runner.py", "main")): 1,
        (): 3,
    }  # fmt: skip
    with pytest.raises(ValueError, match="no frame here"):
        spy.read(["no frame here 1"])


def test_scripts_are_told_apart_by_their_sha_and_the_time_of_the_others_is_what_is_left() -> None:
    products = {product.seat: product for product in entries.load(REDIS.entries)}
    ours, lua, pipeline = (verbs.verbs_of(products[s]) for s in ("windlass_redis", "bare_lua", "bare_pipeline"))
    logged = [(script(verb).sha.decode(), us) for verb, us in (("claim", 30), ("settle", 50), ("renew", 5))]
    took_us = {"evalsha": 100, "hset": 40}  # the latter within the former
    assert verbs.told_apart(logged, took_us, ours) == {"claim": 30, "settle": 50, "other": 20}
    assert set(lua.scripts.values()) == {"insert", "claim", "settle"}
    plain = {"lmove": 1, "hmget": 2, "hset": 4, "ping": 8}
    assert verbs.told_apart([], plain, pipeline) == {"claim": 3, "settle": 4, "other": 0}


def drain_of(*, supervisor_us: float, samples: dict[str, int], claim: float) -> Drain:
    return Drain(
        per_s=1_000.0, sender_us=5.0, insert_us=4.0, cpu_us={"supervisor": supervisor_us, "runner": 20.0},
        in_kernel={"supervisor": 0.25, "runner": 0.0}, server_us=30.0,
        verbs={"claim": claim, "settle": 0.5, "other": 0.0},
        samples={"supervisor": samples, "runner": {"run": 3, "pipe": 1}}, unknown={"supervisor": {}, "runner": {}},
    )  # fmt: skip


def result_of(*columns: Column) -> Result:
    facts = dict.fromkeys(("cpu", "system", "python", "load"), "1")
    server = {"valkey": "9", "allocator": "jemalloc", "round_trip": "0.1 ms", "far_round_trip": "1.1 ms"}
    return Result(
        commit="c0ffee", dirty=False, quick=False, rounds=3, at="2026-11-16", duration_s=1.0, jobs=1,
        machine={"cores": 2} | facts | server, columns=list(columns),
    )  # fmt: skip


OURS = Column(
    "windlass-solo",
    [
        drain_of(supervisor_us=40.0, samples={"settle": 6, "pipe": 2}, claim=0.2),
        drain_of(supervisor_us=60.0, samples={"settle": 0, "pipe": 8}, claim=0.4),
        drain_of(supervisor_us=44.0, samples={"settle": 3, "pipe": 1}, claim=0.3),
    ],
)
FLOOR = Column(
    "bare-lua",
    [
        Drain(
            per_s=9_000.0, sender_us=2.0, insert_us=1.0, cpu_us={"worker": 12.0}, in_kernel={"worker": 0.5},
            server_us=10.0, verbs={"claim": 0.3, "settle": 0.4, "other": 0.0}, samples={}, unknown={},
        )
    ],
)  # fmt: skip


def test_a_column_adds_up_to_what_the_kernel_counted() -> None:
    costs = OURS.cost()
    assert costs["supervisor", "in the kernel"] == 11.0
    assert costs["supervisor", "settle"] == pytest.approx(33.0 * 9 / 20)
    assert sum(us for (who, _), us in costs.items() if who == "supervisor") == pytest.approx(44.0)
    assert costs["server", "claim"] == pytest.approx(9.0)
    assert costs["server", "everything else"] == pytest.approx(30.0 - 9.0 - 15.0)


def test_a_process_that_nobody_saw_has_no_steps() -> None:
    unseen = Column("windlass-aio", [drain_of(supervisor_us=40.0, samples={}, claim=0.2)])
    with pytest.raises(RuntimeError, match="py-spy has seen nothing of the supervisor of windlass-aio"):
        unseen.cost()


def test_the_table_has_sums_and_dashes_where_a_floor_has_no_such_step() -> None:
    lines = sheet.table(result_of(OURS, FLOOR)).splitlines()
    rows = {name: cells for name, *cells in (line.strip("| ").split(" | ") for line in lines)}
    assert rows["µs of CPU per job"] == ["windlass-solo", "bare-lua"]
    assert rows["supervisor: in the kernel"] == ["11.0", "–"]
    assert rows["runner: run"] == ["15.0", "–"]
    assert rows["**worker**"] == ["64.0", "12.0"]
    assert rows["**server**"] == ["30.0", "10.0"]
    assert rows["**to run it**"] == ["94.0", "22.0"]
    assert rows["**to send it**"] == ["9.0", "3.0"]
    assert rows["jobs/s while it drains"] == ["1,000", "9,000"]


def test_the_table_goes_between_its_markers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(table.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    result = result_of(OURS, FLOOR)
    sheet.put(page, result)
    assert f"{sheet.BEGIN}\n\n{sheet.table(result)}\n\n{sheet.END}" in page.read_text(encoding="utf-8")


@pytest.mark.skipif(not EVIDENCE.exists(), reason="no whole run has been made yet")
def test_the_page_is_built_from_the_evidence() -> None:
    assert sheet.table(load(EVIDENCE)) in table.PAGE.read_text(encoding="utf-8")


def test_a_run_without_py_spy_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(spy, "PROGRAM", Path("/no/such/folder/py-spy"))
    assert main(["--quick"]) == 2
    assert "make venv" in capsys.readouterr().err


def test_a_quick_run_of_one_column_has_every_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        rights.check()
    except rights.Forbidden as problem:
        pytest.skip(str(problem))
    monkeypatch.setattr("bench.anatomy.__main__.COLUMNS", COLUMNS[:1])
    file = tmp_path / "anatomy.json"
    assert main(["--quick", "--json", str(file)]) == 0
    result = load(file)
    assert capsys.readouterr().out == sheet.table(result) + "\n"
    (column,) = result.columns
    costs = column.cost()
    assert {*sheet.SENDING, *sheet.OF_SUPERVISOR, *sheet.OF_RUNNER, *sheet.OF_SERVER} == set(costs)
    assert costs["server", "claim"] > 0
    assert costs["server", "settle"] > 0
    assert costs["runner", "run"] > 0
