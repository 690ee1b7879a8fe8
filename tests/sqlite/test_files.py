"""The store's files are ours alone, and what stands in their place by somebody's hand is refused."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.sqlite.rig import claim, hire, in_child, send, tell
from windlass.core.errors import (
    BadValue,
    NotADatabase,
    NotWritable,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReplaced,
    StoreUnavailable,
    UnsafeFile,
    UnsupportedPlatform,
)
from windlass.core.ids import new_id
from windlass.engines.protocol import Interest, Query, Settlement, Sweep, TallyQuery, Verdict
from windlass.engines.sqlite import SqliteEngine, connection, files
from windlass.engines.sqlite.files import Paths, check_platform, network_file_system

PLACES = ("jobs.db", "jobs.db-wal", "jobs.db-shm", "jobs.db.gate", "jobs.db.d/open")
FOLDERS = ("jobs.db.d", "jobs.db.d/owners", "jobs.db.d/wake")


def mode(path: Path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def refusal(path: Path, kind: type[StoreError]) -> StoreError:
    """The error of opening; nothing may be left open or held by it."""
    before = sorted(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else []
    engine = SqliteEngine(path)
    with pytest.raises(kind) as caught:
        engine.open()
    engine.close()
    after = sorted(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else []
    assert len(after) <= len(before), "a refused open left files open"
    assert caught.value.todo
    return caught.value


# ── rights ──────────────────────────────────────────────────────────────────────────────────────────────


def test_every_file_is_0600_and_every_folder_0700_whatever_the_umask(path: Path) -> None:
    before = os.umask(0)
    try:
        engine = SqliteEngine(path)
        engine.open()
        send(engine)
        worker = hire(engine)
        engine.listen(Interest(queues=None, worker=worker), 0)
        found = [entry for entry in path.parent.rglob("*") if entry.name.startswith("jobs") or entry.parent != path]
        assert len(found) > len(PLACES) + len(FOLDERS)
        for entry in found:
            assert mode(entry) == (0o700 if entry.is_dir() else 0o600), entry
        engine.close()
    finally:
        os.umask(before)


def test_rights_that_others_were_given_are_taken_back(path: Path) -> None:
    path.touch(mode=0o644)
    path.chmod(0o644)
    engine = SqliteEngine(path)
    engine.open()
    engine.close()
    assert mode(path) == 0o600


# ── places taken by something else ──────────────────────────────────────────────────────────────────────


@pytest.fixture
def closed(path: Path) -> Path:
    """A store that was used and closed."""
    engine = SqliteEngine(path)
    engine.open()
    send(engine)
    engine.close()
    return path


@pytest.mark.parametrize("place", PLACES)
def test_a_link_in_the_place_of_a_file_is_refused(closed: Path, tmp_path: Path, place: str) -> None:
    target = closed.parent / place
    elsewhere = tmp_path / "elsewhere"
    target.rename(elsewhere) if target.exists() else elsewhere.touch()
    target.symlink_to(elsewhere)
    held = elsewhere.read_bytes()
    assert "link" in refusal(closed, UnsafeFile).message
    assert elsewhere.read_bytes() == held


@pytest.mark.parametrize("place", FOLDERS)
def test_a_link_in_the_place_of_a_folder_is_refused(closed: Path, tmp_path: Path, place: str) -> None:
    target = closed.parent / place
    target.rename(tmp_path / "elsewhere")
    target.symlink_to(tmp_path / "elsewhere")
    assert "link" in refusal(closed, UnsafeFile).message


@pytest.mark.parametrize("place", PLACES)
def test_a_fifo_in_the_place_of_a_file_is_refused_and_hangs_nobody(closed: Path, place: str) -> None:
    target = closed.parent / place
    target.unlink(missing_ok=True)
    os.mkfifo(target)
    refusal(closed, UnsafeFile)


def test_a_folder_in_the_place_of_the_database_is_refused(path: Path) -> None:
    path.mkdir()
    refusal(path, UnsafeFile)


@pytest.mark.parametrize("place", [*PLACES, *FOLDERS])
def test_a_foreign_owner_is_refused_by_number(closed: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    there, check = closed.parent / place, files.check_owner
    if not there.exists():
        there.touch(mode=0o600)

    def owned_by_another(checked: Path, found: os.stat_result, is_kind: Callable[[int], bool]) -> None:
        if checked == there:
            values = list(found)
            values[stat.ST_UID] = 4242
            found = os.stat_result(values)
        check(checked, found, is_kind)

    monkeypatch.setattr(files, "check_owner", owned_by_another)
    assert "4242" in refusal(closed, UnsafeFile).message


def test_a_link_in_the_place_of_a_workers_lock_is_refused(engine: SqliteEngine, path: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    owners = path.parent / "jobs.db.d" / "owners"
    worker = hire(engine)
    engine.close()
    engine.open()
    (owners / f"{worker.hex()}.lock").unlink()
    (owners / f"{worker.hex()}.lock").symlink_to(elsewhere)
    with pytest.raises((UnsafeFile, OSError)):
        engine.sweep(Sweep())
    assert elsewhere.read_text() == "mine"


def test_a_link_on_the_way_to_the_file_is_followed_to_one_and_the_same_store(path: Path, tmp_path: Path) -> None:
    (tmp_path / "way").symlink_to(tmp_path)
    direct, around = SqliteEngine(path), SqliteEngine(tmp_path / "way" / "jobs.db")
    direct.open()
    around.open()
    job_id = send(direct)
    assert around.fetch([job_id])[0] is not None
    around.close()
    direct.close()


# ── what cannot be a store ──────────────────────────────────────────────────────────────────────────────


def everything_in(folder: Path) -> dict[str, tuple[int, bytes]]:
    """The names in a folder, with rights and contents: what an opened file must not be changed in."""
    return {
        entry.name: (entry.lstat().st_mode, entry.read_bytes() if entry.is_file() else b"")
        for entry in folder.iterdir()
    }


def test_a_file_that_is_no_database_is_refused_and_stays_as_it_is(path: Path) -> None:
    path.write_text("dear diary, this is not a database\n" * 100)
    path.chmod(0o644)
    before = everything_in(path.parent)
    assert "not an SQLite database" in refusal(path, NotADatabase).message
    assert everything_in(path.parent) == before


def test_another_programs_database_is_refused_and_stays_as_it_is(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE songs (title)")
        database.execute("INSERT INTO songs VALUES ('Solidarity Forever')")
        database.commit()
    path.chmod(0o664)
    before = everything_in(path.parent)
    assert f"{path} is an SQLite database, but not one of Windlass" in refusal(path, NotADatabase).message
    assert everything_in(path.parent) == before


def test_what_is_no_plain_file_is_refused_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "fifo")
    before = everything_in(tmp_path)
    for name in ("folder", "link", "fifo"):
        assert refusal(tmp_path / name, UnsafeFile).todo == "Give another path."
    assert everything_in(tmp_path) == before
    assert refusal(Path("/dev/null"), UnsafeFile).todo == "Give another path."
    assert not Path("/dev/null.d").exists()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "nowhere" in refusal(tmp_path / "nowhere" / "jobs.db", NotWritable).message


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        folder = Path("/sys")  # root may write everywhere but here
        if not folder.is_dir():
            pytest.skip("root, and no /sys: there is no folder that root cannot write to")
    else:
        folder = tmp_path / "locked"
        folder.mkdir(mode=0o500)
    assert str(folder) in refusal(folder / "jobs.db", NotWritable).message


def test_a_store_that_is_deleted_while_it_is_open_is_told(engine: SqliteEngine, path: Path) -> None:
    send(engine)
    path.unlink()
    with pytest.raises(StoreReplaced) as caught:
        send(engine)
    assert caught.value.todo
    assert not path.exists()


def test_a_store_that_is_replaced_while_it_is_open_is_told_and_the_new_file_is_left_alone(
    engine: SqliteEngine, path: Path, tmp_path: Path
) -> None:
    send(engine)
    (tmp_path / "new").write_bytes(path.read_bytes())
    os.replace(tmp_path / "new", path)
    before = path.read_bytes()
    with pytest.raises(StoreReplaced):
        send(engine)
    assert path.read_bytes() == before


def test_a_new_store_does_not_begin_over_a_wal_that_may_hold_the_jobs_of_a_removed_one(path: Path) -> None:
    engine = SqliteEngine(path)
    engine.open()
    job_id = send(engine)
    engine.close()
    away = path.with_name("away")
    path.rename(away)
    before = Path(f"{path}-wal").read_bytes()
    refused = refusal(path, StoreCorrupt)
    for left in (f"{path}-wal", f"{path}-shm", f"{path}.d"):
        assert left in str(refused)
    assert not path.exists()
    assert Path(f"{path}-wal").read_bytes() == before
    away.rename(path)
    engine.open()
    assert engine.fetch([job_id])[0] is not None
    engine.close()


def test_what_is_left_of_a_removed_store_is_told_and_a_new_one_begins(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = SqliteEngine(path)
    engine.open()
    job_id = send(engine)
    engine.close()
    for gone in (path, Path(f"{path}-wal")):
        gone.unlink()
    (notice,) = engine.open().notices
    assert [record.getMessage() for record in caplog.records] == [notice]
    assert f"{path}-shm" in notice
    assert f"{path}.d" in notice
    assert engine.fetch([job_id]) == [None]
    send(engine)
    engine.close()
    assert engine.open().notices == ()
    engine.close()


VERBS: dict[str, Callable[[SqliteEngine], object]] = {
    "insert": send,
    "fetch": lambda engine: engine.fetch([new_id()]),
    "search": lambda engine: engine.search(Query()),
    "tally": lambda engine: engine.tally(TallyQuery()),
    "read": lambda engine: engine.read(["fact"]),
    "listen": lambda engine: engine.listen(Interest(ends=frozenset([new_id()])), 0),
    "backup": lambda engine: engine.backup("backup.db"),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("warm", [False, True], ids=["first", "later"])
@pytest.mark.parametrize("what", ["moved", "replaced", "folder moved"])
def test_every_verb_on_a_store_that_was_moved_or_replaced_says_so(
    verb: str, warm: bool, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder, away = tmp_path / "folder", tmp_path / "away"
    folder.mkdir()
    path = folder / "jobs.db"
    engine = SqliteEngine(path)
    engine.open()
    send(engine)
    if warm:
        engine.search(Query())  # from now on there is a connection that could still read the old file
    match what:
        case "moved":
            path.rename(away)
        case "replaced":
            away.write_bytes(path.read_bytes())
            os.replace(away, path)
        case _:
            folder.rename(away)
    with pytest.raises(StoreReplaced):
        VERBS[verb](engine)
    assert not (tmp_path / "backup.db").exists()
    if what == "folder moved":
        away.rename(folder)
    engine.close()


def test_a_store_that_was_put_back_is_read_again(engine: SqliteEngine, path: Path, tmp_path: Path) -> None:
    job_id = send(engine)
    path.rename(tmp_path / "away")
    with pytest.raises(StoreReplaced):
        engine.fetch([job_id])
    (tmp_path / "away").rename(path)
    assert engine.fetch([job_id])[0] is not None


# ── the machine ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("platform", ["win32", "emscripten", "freebsd14"])
def test_other_platforms_are_refused_in_a_sentence(platform: str) -> None:
    with pytest.raises(UnsupportedPlatform) as caught:
        check_platform(platform)
    assert platform in caught.value.message
    assert caught.value.todo


def test_open_looks_at_the_platform_before_it_touches_the_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        check_platform("win32")

    monkeypatch.setattr("windlass.engines.sqlite.engine.check_platform", refuse)
    with pytest.raises(UnsupportedPlatform):
        SqliteEngine(path).open()
    assert list(path.parent.iterdir()) == []


def test_an_sqlite_with_the_wal_reset_bug_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "OLDEST_SQLITE", (9, 0, 0))
    error = refusal(path, StoreUnavailable)
    assert "WAL-reset" in error.message
    assert "pip install" in error.todo


MOUNTS = """\
21 1 8:1 / / rw - ext4 /dev/sda1 rw
30 21 0:40 / /home rw - nfs4 server:/home rw
31 30 8:2 / /home/local rw - xfs /dev/sdb1 rw
32 21 0:41 / /mnt/with\\040space rw - cifs //server/share rw
"""


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("/var/jobs.db", None),
        ("/home/me/jobs.db", "nfs4"),
        ("/home/local/jobs.db", None),
        ("/homework/jobs.db", None),
        ("/mnt/with space/jobs.db", "cifs"),
    ],
)
def test_the_mount_that_holds_the_file_tells_the_kind(
    place: str, kind: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mounts(_: Path) -> str:
        return MOUNTS

    monkeypatch.setattr(Path, "read_text", mounts)
    assert network_file_system(Path(place)) == kind


def test_a_network_file_system_is_warned_about_and_used(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def nfs(_: Path) -> str:
        return "nfs4"

    monkeypatch.setattr("windlass.engines.sqlite.engine.network_file_system", nfs)
    engine = SqliteEngine(path)
    (notice,) = engine.open().notices
    assert "network file system (nfs4)" in notice
    assert notice in caplog.text
    assert engine.fetch([send(engine)])[0] is not None
    engine.close()


# ── full disks ──────────────────────────────────────────────────────────────────────────────────────────


def test_below_the_floor_new_jobs_are_refused_and_running_ones_can_end(path: Path) -> None:
    roomy = SqliteEngine(path, disk_reserve=0)
    roomy.open()
    job_id = send(roomy)
    tight = SqliteEngine(path, disk_floor=1 << 62, disk_reserve=0)
    tight.open()
    with pytest.raises(StoreFull) as caught:
        send(tight)
    assert "MiB are left" in caught.value.message
    assert caught.value.todo
    assert tell(path, "SELECT count(*) FROM job") == [(1,)]
    (held,) = claim(tight, hire(tight))
    assert held.id == job_id
    assert tight.settle([Settlement(id=held.id, fence=held.fence)]) == [Verdict.ACCEPTED]
    tight.close()
    roomy.close()


# ── unclean ends ────────────────────────────────────────────────────────────────────────────────────────

DIE = """
import os, sys
from windlass.core.ids import new_id
from windlass.core.job import Job, Request
from windlass.engines.sqlite import SqliteEngine

engine = SqliteEngine(sys.argv[1])
engine.open()
engine.insert([Job(request=Request(id=new_id(), task="task")) for _ in range(300)])
os._exit(9)
"""


def checks(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, tuple[str, ...]]:
    """How often the file was checked by an open, and what open said."""
    done: list[Path] = []
    check = SqliteEngine._check  # pyright: ignore[reportPrivateUsage]

    def counted(self: SqliteEngine, paths: Paths) -> None:
        done.append(paths.database)
        check(self, paths)

    monkeypatch.setattr(SqliteEngine, "_check", counted)
    engine = SqliteEngine(path)
    opened = engine.open()
    engine.close()
    monkeypatch.undo()
    return len(done), opened.notices


def test_after_an_unclean_end_the_file_is_checked_once_and_it_is_told(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert in_child(DIE, path).returncode == 9
    count, notices = checks(path, monkeypatch)
    assert count == 1
    assert "not closed cleanly" in notices[0]
    assert checks(path, monkeypatch) == (0, ())


def test_after_a_clean_end_nothing_is_checked(closed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checks(closed, monkeypatch) == (0, ())


def test_while_another_has_it_open_nothing_is_checked(
    path: Path, engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert in_child(DIE, path).returncode == 9
    assert engine.tally(TallyQuery()).counts[0].n == 300
    assert checks(path, monkeypatch) == (0, ())


def damage(path: Path, first_page: int = 8) -> None:
    """Overwrites everything behind the first pages, as a bad disk might."""
    tell(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    size = path.stat().st_size
    assert size > first_page * 4096
    with path.open("r+b") as file:
        for start in range(first_page * 4096, size, 4096):
            file.seek(start)
            file.write(b"\xff" * 2048)


def test_a_damaged_file_is_refused_after_an_unclean_end_each_time(path: Path) -> None:
    assert in_child(DIE, path).returncode == 9
    damage(path)
    for _ in range(2):
        error = refusal(path, StoreCorrupt)
        assert "integrity check" in error.message or "damaged" in error.message
        assert "backup" in error.todo


def test_damage_met_while_it_works_is_told_in_a_sentence(path: Path) -> None:
    engine = SqliteEngine(path)
    engine.open()
    ids = [send(engine, payload=b"p" * 2000) for _ in range(100)]
    engine.close()
    damage(path, first_page=60)
    engine.open()
    with pytest.raises(StoreCorrupt) as caught:
        engine.fetch(ids)
    assert "backup" in caught.value.todo
    engine.close()


# ── backup ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_backup_stands_alone_and_has_everything(engine: SqliteEngine, path: Path, tmp_path: Path) -> None:
    ids = [send(engine, tags=("t",), payload=b"p" * 5000) for _ in range(50)]
    folder = tmp_path / "backups"
    folder.mkdir()
    copy = engine.backup(folder / "copy.db")
    later = send(engine)
    assert mode(copy) == 0o600
    assert [entry.name for entry in folder.iterdir()] == ["copy.db"]
    restored = SqliteEngine(copy)
    assert restored.open().notices == ()
    assert [job is not None for job in restored.fetch([*ids, later])] == [True] * 50 + [False]
    assert restored.fetch(ids[:1]) == engine.fetch(ids[:1])
    assert restored.tally(TallyQuery()).counts[0].n == 50
    restored.close()
    assert tell(copy, "PRAGMA integrity_check") == [("ok",)]


def test_a_backup_never_overwrites(engine: SqliteEngine, tmp_path: Path) -> None:
    target = tmp_path / "there"
    target.write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for taken in (target, tmp_path / "link"):
        with pytest.raises(BadValue) as caught:
            engine.backup(taken)
        assert caught.value.todo
    assert target.read_text() == "precious"
    assert not (tmp_path / "nowhere").exists()


def test_a_backup_that_cannot_be_written_leaves_nothing_behind(engine: SqliteEngine, tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        engine.backup(tmp_path / "nowhere" / "copy.db")
    assert not (tmp_path / "nowhere").exists()
