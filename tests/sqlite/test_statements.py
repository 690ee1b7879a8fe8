"""The statements in sql/: each is used, each name exists, and no hot one walks through the whole table."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sqlite.rig import in_child, outside
from windlass.engines.protocol import BATCH
from windlass.engines.sqlite import SqliteEngine, rows
from windlass.engines.sqlite.statements import FOLDER, repeated, sql

NAMES = sorted(file.stem for file in (FOLDER / "sql").glob("*.sql"))

HOT = {
    "claim_heads": "job_ready (stream=?)",
    "claim_held": "job_running (worker=?)",
    "claim_take": "INTEGER PRIMARY KEY (rowid=?)",
    "due_first": "job_due",
    "due_next": "job_due (due_us<?)",
    "work_waits": "INDEX job_due (due_us<?)",
    "expire_next": "job_expires (expires_us>? AND expires_us<?)",
    "fence_read": "job_id (id=?)",
    "flow_next": "job_flow (flow=? AND rowid>?)",
    "job_known": "job_id (id=?)",
    "jobs_fetch": "job_id (id=?)",
    "key_ends": "job_ukey_until (ukey_until_us>? AND ukey_until_us<?)",
    "key_holder": "job_ukey (ukey=?)",
    "lane_next": "job_in_lane (lane=?)",
    "purge_next": "job_purge (purge_us>? AND purge_us<?)",
    "purge_oldest": "job_purge_succeeded (purge_us>? AND purge_us<?)",
    "running_asked": "job_running (worker=?)",
    "running_count": "job_running (worker=?)",
    "running_next": "job_running (worker=?)",
    "running_strays": "job_running",
    "search_ended_queue": "job_ended_queue (state=? AND queue=? AND ended_us>? AND ended_us<?)",
    "search_ended_task": "job_ended_task (state=? AND task=? AND ended_us>? AND ended_us<?)",
    "search_fingerprint": "job_fingerprint (fingerprint=? AND ended_us<?)",
    "search_fingerprint_live": "job_fingerprint (fingerprint=? AND ended_us=? AND rowid<?)",
    "search_flow": "job_flow (flow=? AND rowid<?)",
    "search_held": "job_held (queue=? AND rowid<?)",
    "search_lane": "job_lane (lane=? AND rowid<?)",
    "search_live_task": "job_live_task (task=? AND rowid<?)",
    "search_ready": "job_ready (stream=? AND rank>?)",
    "search_running": "job_running",
    "search_scheduled": "job_due (due_us>?)",
    "search_scheduled_queue": "job_scheduled (queue=? AND due_us>?)",
    "search_worker": "job_running (worker=? AND rowid<?)",
    "settle_success": "job_id (id=?)",
}
"""By which index each finds its jobs."""

SORTS = {"claim_held", "search_running"}
"""Those that sort what they found: a worker's claims under one ticket, and what runs now. Both are few."""


def asked() -> Iterator[str]:
    """Every name the engine asks for, as a pattern: a part that is put in at run time may be anything."""
    for file in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "sql"):
                continue
            (name,) = node.args
            if isinstance(name, ast.Constant):
                yield re.escape(str(name.value))
            else:
                assert isinstance(name, ast.JoinedStr), f"{file.name}:{node.lineno}"
                yield "".join(
                    re.escape(str(part.value)) if isinstance(part, ast.Constant) else r"\w+" for part in name.values
                )


def test_every_name_that_is_asked_for_is_a_statement() -> None:
    lost = [pattern for pattern in asked() if not any(re.fullmatch(pattern, name) for name in NAMES)]
    assert lost == []


def test_every_statement_is_asked_for() -> None:
    patterns = list(asked())
    idle = [name for name in NAMES if not any(re.fullmatch(pattern, name) for pattern in patterns)]
    assert idle == []


def test_no_statement_is_written_in_the_code() -> None:
    """Only what SQLite itself needs to be told stands in the code: pragmas, transactions, migrations."""
    kept = {"connection.py", "commit.py", "readers.py", "engine.py"}
    for file in FOLDER.glob("*.py"):
        found = re.findall(r'"(?:SELECT|INSERT|UPDATE|DELETE|WITH) [^"]*"', file.read_text())
        assert not found or file.name in kept, f"{file.name}: {found}"
        assert not [text for text in found if " job" in text], file.name


def test_statements_that_give_a_whole_row_give_its_columns_in_order() -> None:
    whole = [name for name in NAMES if "settled_fence, worker, ticket" in sql(name) and sql(name).startswith("SELECT")]
    assert len(whole) > 5
    for name in whole:
        columns = " ".join(sql(name).removeprefix("SELECT").split())
        assert columns.startswith(rows.COLUMNS), name


def plan(path: Path, statement: str) -> list[str]:
    """How SQLite goes about the statement."""
    most = max([statement.count("?") if "?1" not in statement else 0, *map(int, re.findall(r"\?(\d+)", statement))])
    with outside(path) as connection:
        return [str(line[3]) for line in connection.execute(f"EXPLAIN QUERY PLAN {statement}", (1,) * most)]


@pytest.mark.parametrize("name", NAMES)
def test_no_statement_walks_through_all_jobs(engine: SqliteEngine, path: Path, name: str) -> None:
    """`SCAN job` without an index, or a walk along the row numbers, costs more with every finished job."""
    steps = plan(path, sql(name))
    assert not [step for step in steps if re.fullmatch(r"SCAN job", step)], steps
    if name != "search_all":
        assert not [step for step in steps if "PRIMARY KEY (rowid<?)" in step or "KEY (rowid>?)" in step], steps
    if name not in SORTS:
        assert not [step for step in steps if "TEMP B-TREE" in step], steps


@pytest.mark.parametrize("name", sorted(HOT))
def test_a_hot_statement_finds_its_jobs_by_its_index(engine: SqliteEngine, path: Path, name: str) -> None:
    steps = [step for step in plan(path, sql(name)) if re.match(r"(SCAN|SEARCH) job\b", step)]
    assert [step for step in steps if step.endswith(HOT[name])] == steps != [], steps


def test_the_ends_of_a_whole_batch_are_found_by_their_ids(engine: SqliteEngine, path: Path) -> None:
    """SQLite may go through what runs, or through all jobs, instead, and look each one up among the ends."""
    steps = [step for step in plan(path, repeated(sql("settle_success"), BATCH)) if re.search(r"\bjob\b", step)]
    assert steps == ["SEARCH job USING INDEX job_id (id=?)"]


def test_every_statement_that_looks_for_jobs_is_listed() -> None:
    looks = {name for name in NAMES if re.search(r"\bFROM job\b", sql(name)) and "seq = ?1" not in sql(name)}
    assert looks - HOT.keys() <= {"search_all", "row_by_id", "extra_read", "ended_among"}


def test_statements_are_read_whatever_the_locale(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their comments hold more than ASCII, which is what Python takes a file for in this locale unless it is told."""
    for name, value in {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}.items():
        monkeypatch.setenv(name, value)
    done = in_child(
        """
        import pathlib, sys
        from windlass.engines.sqlite import SqliteEngine
        SqliteEngine(pathlib.Path(sys.argv[1])).open()
        """,
        path,
    )
    assert (done.returncode, done.stderr) == (0, "")
