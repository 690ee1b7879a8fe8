"""connect: a URL picks the engine, and one that cannot be used says why and what to write instead."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tests.sqlite.rig import in_child, new_job
from windlass import connect
from windlass.core.errors import BadUrl, TooLarge, UnknownScheme
from windlass.core.limits import Limits
from windlass.core.settings import Settings, load
from windlass.engines.connect import GROUP, sqlite_path
from windlass.engines.memory import MemoryEngine
from windlass.engines.protocol import Engine
from windlass.engines.sqlite import SqliteEngine


def test_the_scheme_picks_the_engine_whatever_its_case() -> None:
    assert isinstance(connect("memory://"), MemoryEngine)
    assert isinstance(connect("SQLite:///jobs.db"), SqliteEngine)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///jobs.db", "jobs.db"),
        ("sqlite:////var/lib/jobs.db", "/var/lib/jobs.db"),
        ("sqlite:///a%20b.db", "a b.db"),
    ],
)
def test_the_path_is_relative_or_absolute_as_written(url: str, path: str) -> None:
    assert sqlite_path(url) == Path(path)


def test_a_relative_path_is_that_of_the_folder_in_which_the_engine_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("home", "away"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "home")
    engine = connect("sqlite:///jobs.db")
    monkeypatch.chdir(tmp_path / "away")
    for _ in range(2):  # opened again, too
        engine.open()
        engine.close()
    assert (tmp_path / "home" / "jobs.db").exists()
    assert list((tmp_path / "away").iterdir()) == []


@pytest.mark.parametrize(
    "url",
    [
        "",
        "jobs.db",
        "sqlite:jobs.db",
        "://",
        "sqlite://",
        "sqlite:///",
        "sqlite:///folder/",
        "sqlite://host/jobs.db",
        "sqlite://jobs.db",
        "sqlite:///jobs.db?mode=ro",
        "sqlite:///jobs.db#x",
        "sqlite:///a%00b",
        "sqlite:///:memory:",
        "memory://name/path",
        "memory://?x=1",
    ],
)
def test_a_bad_url_is_refused_and_shown_how_to_write_it(url: str) -> None:
    with pytest.raises(BadUrl) as caught:
        connect(url)
    assert "://" in caught.value.todo


@pytest.mark.parametrize(
    ("url", "near"), [("sqlit:///jobs.db", "sqlite"), ("memori://", "memory"), ("reddis://x", "redis")]
)
def test_a_near_miss_is_named(url: str, near: str) -> None:
    with pytest.raises(UnknownScheme) as caught:
        connect(url)
    assert f"Did you mean {near}://?" in caught.value.todo


def test_a_scheme_like_nothing_known_guesses_nothing() -> None:
    with pytest.raises(UnknownScheme) as caught:
        connect("gopher://jobs")
    assert "Did you mean" not in caught.value.todo
    assert caught.value.todo


@pytest.mark.parametrize("scheme", ["postgresql", "mongodb", "file"])
def test_an_engine_of_a_later_version_says_so(scheme: str) -> None:
    with pytest.raises(UnknownScheme) as caught:
        connect(f"{scheme}://host")
    assert "not in this version" in caught.value.message
    assert "sqlite:///" in caught.value.todo


def test_no_refusal_shows_a_password() -> None:
    for url in (
        "sqlite://me:hunter2@host/jobs.db",
        "memory://me:hunter2@x/y",
        "me:hunter2@host",
        "me:hunter2@host://x",
    ):
        with pytest.raises(BadUrl) as caught:
            connect(url)
        assert "hunter2" not in str(caught.value)


WITHOUT_APSW = """
import sys
sys.modules["apsw"] = None
import windlass
assert windlass.connect("memory://")
try:
    windlass.connect("sqlite:///jobs.db")
except windlass.WindlassError as error:
    print(type(error).__name__, error)
"""


def test_a_missing_driver_is_answered_with_the_pip_command() -> None:
    """MissingExtra, in a process that has no apsw."""
    done = in_child(WITHOUT_APSW)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("MissingExtra ")
    assert "pip install apsw" in done.stdout


WITHOUT_EXTRA = """
import sys
sys.modules[{package!r}] = None
import windlass
try:
    import windlass.testing.conformance
except windlass.WindlassError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize("package", ["pytest", "hypothesis"])
def test_a_conformance_suite_without_its_extra_is_answered_with_the_pip_command(package: str) -> None:
    """MissingExtra, in a process that has not the package."""
    done = in_child(WITHOUT_EXTRA.format(package=package))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"MissingExtra The conformance suite needs the package {package}. ")
    assert "pip install pytest hypothesis" in done.stdout


def offered(url: str, settings: Settings) -> Engine:
    return MemoryEngine(url.partition("://")[2], settings.limits)


def broken(url: str, settings: Settings) -> Engine:
    raise AssertionError("an entry point may not take the place of an engine of ours")


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> None:
    found = metadata.EntryPoints(
        [
            metadata.EntryPoint("mine", f"{__name__}:offered", GROUP),
            metadata.EntryPoint("memory", f"{__name__}:broken", GROUP),
            metadata.EntryPoint("absent", "no.such.module:engine", GROUP),
        ]
    )

    def entry_points(*, group: str) -> metadata.EntryPoints:
        return found.select(group=group)

    monkeypatch.setattr(metadata, "entry_points", entry_points)


@pytest.mark.usefixtures("entries")
def test_another_package_can_offer_an_engine() -> None:
    limits = Limits(tags=3)
    engine = connect("mine://shop", Settings(limits=limits))
    assert isinstance(engine, MemoryEngine)
    engine.open()
    engine.close()


@pytest.mark.usefixtures("entries")
def test_another_package_cannot_replace_an_engine_of_ours_and_is_loaded_only_when_asked() -> None:
    assert isinstance(connect("memory://"), MemoryEngine)


@pytest.mark.parametrize(("url", "settings"), [(Path("jobs.db"), None), (b"memory://", None), (None, load())])
def test_what_is_no_url_or_no_settings_is_refused_in_a_sentence(url: Any, settings: Any) -> None:
    with pytest.raises(BadUrl, match="cannot be a"):
        connect(url, settings)


def test_without_settings_those_of_the_environment_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_URL", "memory://from-the-environment")
    monkeypatch.setenv("WINDLASS_PAYLOAD_BYTES", "1KiB")
    engine = connect()
    assert isinstance(engine, MemoryEngine)
    engine.open()
    with pytest.raises(TooLarge):
        engine.insert([new_job(payload=b"x" * 2_000)])
    engine.close()
