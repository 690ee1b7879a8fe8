"""The race can be run: everybody is asked alike, failures are told, and the tables say who ran at which version.

No time is asserted here, and no other queue is installed: ours and the floor stand for them.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import msgspec
import pytest

from bench import bars
from bench.race import entries, far, table, verdicts
from bench.race.__main__ import main
from bench.race.contestant import waits_ms
from bench.race.entries import Product
from bench.race.groups import EMBEDDED, GROUPS, REDIS, Group
from bench.race.result import Finish, Result, load

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the race reads /proc"),
    pytest.mark.timeout(300),
]

BARE = next(product for product in entries.load(EMBEDDED.entries) if product.kind == "floor")


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


@pytest.mark.parametrize(
    ("group", "names", "bars_measured"),
    [
        (EMBEDDED, ["windlass", "bare"], set[str]()),
        (
            REDIS,
            ["windlass-solo", "bare-lua"],
            {"cpu_solo", "send_one_bare", "send_together", "idle", "far", "growth"},
        ),
    ],
)
def test_a_quick_race_of_ours_and_the_floor_has_every_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], group: Group, names: list[str], bars_measured: set[str]
) -> None:
    file = tmp_path / "race.json"
    assert main(["--group", group.name, "--quick", "--only", *names, "--json", str(file)]) == 0
    result = load(file)
    assert [finish.entry.name for finish in result.finishes] == names
    ours, floor = result.finishes
    columns = set(table.COLUMNS[group.name])
    assert columns | set(table.ALSO.get(group.name, {})) <= set(ours.figures)
    assert columns - set(floor.figures) == set(floor.product.lacks)
    for finish in result.finishes:
        assert finish.error is None
        assert all(len(values) == 1 for values in finish.figures.values())
        assert all(finish.figures[name][0] > 0 for name in columns & set(finish.figures))
    assert {line.bar.name for line in result.bars} >= bars_measured
    assert {line.passed for line in result.bars} == {None}
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
    assert "windlass-no-such-package 0.0.1, not run: install:" in capsys.readouterr().out


def test_an_entry_that_does_not_exist_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "no_such_entry"]) == 2
    assert "no_such_entry" in capsys.readouterr().err


def test_an_unknown_field_of_an_entry_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "entries.toml"
    file.write_text(EMBEDDED.entries.read_text().replace("results =", "results_ =", 1))
    with pytest.raises(msgspec.ValidationError):
        entries.load(file)


def test_waits_are_told_by_the_number_of_the_job_in_whatever_order_they_ran() -> None:
    first, late = (0, 500), (2, 9_000_000)
    assert waits_ms([first, (1, 3_000_000), late, (0, 4_000_000)], [1_000_000, 2_000_000]) == [1.0, 3.0]
    with pytest.raises(RuntimeError, match="Of 2 jobs that were sent, 1 started"):
        waits_ms([first, late, (0, 4_000_000)], [1_000_000, 2_000_000])


def test_the_long_way_passes_pieces_on_when_they_are_due_in_order() -> None:
    (client, ours), (theirs, server) = socket.socketpair(), socket.socketpair()
    with client, ours, theirs, server:
        for end in (ours, theirs, server):
            end.setblocking(False)
        way = far.Way(ours, theirs)
        client.sendall(b"first ")
        way.take(now=10.0)
        client.sendall(b"second")
        way.take(now=10.0 + far.EACH_WAY_S)
        assert way.give(now=10.0 + far.EACH_WAY_S / 2)
        with pytest.raises(BlockingIOError):
            server.recv(100)
        assert way.give(now=10.0 + far.EACH_WAY_S)
        assert server.recv(100) == b"first "
        client.close()
        way.take(now=11.0)
        assert not way.is_open
        assert not way.give(now=12.0)
        assert server.recv(100) == b"second"
        assert server.recv(100) == b""


def test_the_long_way_keeps_what_the_other_side_does_not_take_yet() -> None:
    (client, ours), (theirs, server) = socket.socketpair(), socket.socketpair()
    with client, ours, theirs, server:
        for end in (client, ours, theirs):
            end.setblocking(False)
        way, sent, got = far.Way(ours, theirs), bytearray(), bytearray()
        while not way.rest:
            sent += b"x" * client.send(b"x" * 50_000)
            way.take(now=1.0)
            assert way.give(now=2.0)
        while way.rest or way.pieces:
            got += server.recv(far.PIECE)
            assert way.give(now=2.0)
        theirs.close()
        while piece := server.recv(far.PIECE):
            got += piece
        assert got == sent


def finish(group: Group, name: str, **figures: list[float]) -> Finish:
    product = next(p for p in entries.load(group.entries) if name in [entry.name for entry in p.entry])
    entry = next(entry for entry in product.entry if entry.name == name)
    return Finish(product=product, entry=entry, version="1", backlog=(1, 2), figures=figures)


def outcomes(group: Group, *finishes: Finish) -> dict[str, tuple[float, bool | None]]:
    lines = verdicts.verdicts(group.name, finishes, quick=False)
    return {line.bar.name: (round(line.measured, 9), line.passed) for line in lines}


def test_every_bar_has_a_rule_in_one_group() -> None:
    assert sorted(name for rules in verdicts.RULES.values() for name in rules) == sorted(
        bar.name for bar in bars.load(verdicts.FILE)
    )
    assert list(verdicts.RULES) == list(table.COLUMNS) == list(GROUPS)


def test_bars_compare_within_a_round_and_the_floor_is_no_peer() -> None:
    assert outcomes(
        EMBEDDED,
        finish(EMBEDDED, "windlass", drain_per_s=[10.0, 60.0, 10.0], rerun_s=[1.0, 1.5, 1.0]),
        finish(EMBEDDED, "windlass-solo", drain_per_s=[20.0, 100.0, 20.0], rerun_s=[2.0, 1.0, 3.0]),
        finish(EMBEDDED, "huey-fsync", drain_per_s=[2.0, 10.0, 4.0]),
        finish(EMBEDDED, "flexiq", drain_per_s=[1.0, 20.0, 2.0]),
        finish(EMBEDDED, "litequeue", drain_per_s=[4.0, 1.0, 4.0]),
        finish(EMBEDDED, "bare", drain_per_s=[1e6, 1e6, 1e6]),
    ) == {
        "solo_huey": (10.0, True),
        "default_huey": (5.0, True),
        "default_best": (2.5, False),
        "rerun": (2.0, True),
    }


def test_a_peer_that_failed_in_between_counts_as_long_as_it_raced() -> None:
    assert outcomes(
        EMBEDDED,
        finish(EMBEDDED, "windlass", drain_per_s=[10.0, 10.0, 10.0]),
        finish(EMBEDDED, "flexiq", drain_per_s=[5.0]),
        finish(EMBEDDED, "litequeue", drain_per_s=[1.0, 1.0, 2.0]),
    ) == {"default_best": (5.0, True)}


def test_the_best_configuration_of_each_is_the_one_with_the_best_median() -> None:
    # The second of ours is better in one round and worse by the median: it does not count.
    assert outcomes(
        REDIS,
        finish(REDIS, "windlass-solo", drain_per_s=[40.0, 40.0, 40.0], far_per_s=[30.0, 10.0, 24.0]),
        finish(REDIS, "windlass-p2", drain_per_s=[90.0, 30.0, 30.0], far_per_s=[1.0, 1.0, 1.0]),
        finish(REDIS, "bullmq", drain_per_s=[20.0, 20.0, 10.0]),
        finish(REDIS, "bullmq-2", drain_per_s=[1.0, 30.0, 1.0]),
        finish(REDIS, "celery-prefork", drain_per_s=[2.0, 2.0, 2.0]),
        finish(REDIS, "dramatiq", drain_per_s=[8.0, 8.0, 8.0]),
        finish(REDIS, "bare-lua", drain_per_s=[1e6, 1e6, 1e6]),
    ) == {
        "drain_bullmq": (2.0, True),
        "drain_python": (5.0, True),
        "drain_celery": (20.0, False),
        "far": (0.6, True),
    }


def test_cpu_is_that_of_worker_and_server_together() -> None:
    assert outcomes(
        REDIS,
        finish(REDIS, "windlass-solo", drain_cpu_s=[0.3, 0.5], server_cpu_s=[0.3, 0.3]),
        finish(REDIS, "windlass-threads", drain_cpu_s=[0.9, 0.9], server_cpu_s=[0.3, 0.3]),
        finish(REDIS, "windlass-aio", drain_cpu_s=[0.5]),
        finish(REDIS, "bullmq", drain_cpu_s=[1.0, 1.0], server_cpu_s=[1.0, 1.0]),
        finish(REDIS, "bullmq-2", drain_cpu_s=[1.5, 0.6], server_cpu_s=[1.0, 1.0]),
    ) == {"cpu_solo": (0.7, True), "cpu_bullmq": (0.4, True), "cpu_threads": (1.2, False)}


def test_sends_are_compared_with_the_floor_and_with_the_best_peer_of_each_round() -> None:
    assert outcomes(
        REDIS,
        finish(REDIS, "windlass-solo", send_one_per_s=[8.0, 8.0], send_many_per_s=[50.0, 50.0],
               send_together_per_s=[20.0, 20.0], idle_cpu_s=[0.05, 0.07], growth_x=[1.0, 1.2],
               start_p50_ms=[2.0, 2.0]),
        finish(REDIS, "windlass-p2", start_p50_ms=[1.0, 3.0]),
        finish(REDIS, "bare-lua", send_one_per_s=[10.0, 10.0]),
        finish(REDIS, "bullmq", send_one_per_s=[4.0, 16.0], send_many_per_s=[20.0, 20.0], start_p50_ms=[2.0, 2.0]),
        finish(REDIS, "celery-prefork", send_one_per_s=[2.0, 2.0], start_p50_ms=[4.0, 8.0]),
    ) == {
        "send_many": (2.5, True),
        "send_one_bare": (0.8, True),
        "send_one_best": (1.25, True),
        "send_together": (2.5, False),
        "start_best": (0.75, True),
        "idle": (0.06, True),
        "growth": (1.1, True),
    }  # fmt: skip


def test_peers_on_rabbitmq_are_no_peers_on_redis_but_send_and_start_beside_all() -> None:
    assert outcomes(
        REDIS,
        finish(REDIS, "windlass-solo", drain_per_s=[40.0], send_one_per_s=[8.0], start_p50_ms=[2.0]),
        finish(REDIS, "celery-prefork", drain_per_s=[1.0], send_one_per_s=[1.0], start_p50_ms=[9.0]),
        finish(REDIS, "dramatiq", drain_per_s=[5.0], send_one_per_s=[2.0], start_p50_ms=[8.0]),
        finish(REDIS, "celery-rabbit", drain_per_s=[4.0], send_one_per_s=[4.0], start_p50_ms=[1.0]),
        finish(REDIS, "dramatiq-rabbit", drain_per_s=[20.0], send_one_per_s=[16.0], start_p50_ms=[4.0]),
    ) == {
        "drain_python": (8.0, True),
        "drain_celery": (40.0, True),
        "send_one_best": (0.5, False),
        "start_best": (2.0, False),
    }


def result_of(group: str, *finishes: Finish) -> Result:
    facts = dict.fromkeys(("cpu", "system", "python", "sqlite", "python_sqlite", "load"), "1")
    server = {"valkey": "9", "allocator": "jemalloc", "round_trip": "0.1 ms", "far_round_trip": "1.1 ms"}
    return Result(
        group=group, commit="c0ffee", dirty=False, quick=False, rounds=3, at="2026-11-16", duration_s=1.0,
        machine={"cores": 2} | facts | server, finishes=list(finishes), bars=[],
    )  # fmt: skip


def test_whoever_could_not_be_installed_was_not_run_and_whoever_failed_has_failed() -> None:
    absent, broken = finish(REDIS, "dramatiq"), finish(REDIS, "bullmq")
    absent.error = "install: no such version"
    broken.error = "drain: The worker ended with 1: a | b"
    result = result_of(REDIS.name, absent, broken)
    said = table.tables(result)
    assert "dramatiq, 1, not run: install: no such version" in said
    assert r"bullmq, 1, failed: drain: The worker ended with 1: a \| b" in said
    assert result.failed


def test_figures_that_few_are_asked_for_have_a_table_of_their_own() -> None:
    ours = finish(REDIS, "windlass-solo", drain_per_s=[2_000.0], growth_x=[1.1])
    said = table.tables(result_of(REDIS.name, ours, finish(REDIS, "bare-lua", drain_per_s=[9_000.0])))
    _, figures, more, *_ = said.split("\n\n")
    assert "9,000" in figures
    assert "1.10" in more
    assert "bare-lua" not in more


@pytest.mark.parametrize("group", [group for group in GROUPS.values() if group.evidence.exists()])
def test_the_page_is_built_from_the_evidence_and_names_every_pinned_version(group: Group) -> None:
    result = load(group.evidence)
    products = entries.load(group.entries)
    page = table.PAGE.read_text(encoding="utf-8")
    assert table.tables(result) in page
    for product in products:
        for pin in product.requirements:
            assert pin.replace("==", " ") in page
    assert [f.entry for f in result.finishes] == [entry for product in products for entry in product.entry]


def test_the_page_has_a_place_for_the_tables_of_every_group(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for name in GROUPS:
        page.write_text(table.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
        table.put(page, result_of(name))
        assert table.tables(result_of(name)) in page.read_text(encoding="utf-8")


def test_tables_go_between_the_markers_and_nowhere_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    begin, end = (marker.format(group="embedded") for marker in (table.BEGIN, table.END))
    page.write_text(f"above\n{begin}\nold\n{end}\nbelow\n")
    result = msgspec.structs.replace(
        load(EMBEDDED.evidence), finishes=[finish(EMBEDDED, "bare", drain_per_s=[1.0])], bars=[]
    )
    assert isinstance(result, Result)
    table.put(page, result)
    assert page.read_text() == f"above\n{begin}\n\n{table.tables(result)}\n\n{end}\nbelow\n"
    page.write_text("no markers")
    with pytest.raises(ValueError, match="has no lines"):
        table.put(page, result)
