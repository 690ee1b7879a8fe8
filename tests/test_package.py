"""What a user gets from `pip install windlass`: built once, looked into, installed in empty environments."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "windlass"
CHECK = ROOT / "scripts" / "check_dist.py"

# One process builds and installs; the others would only do the same again.
pytestmark = [pytest.mark.xdist_group("package"), pytest.mark.timeout(300)]

SMOKE = """
import windlass

for url in ("memory://", "sqlite:///jobs.db"):
    engine = windlass.connect(url)
    engine.open()
    engine.close()
print(windlass.__version__, windlass.__file__)
"""


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def install(folder: Path, requirement: str) -> Path:
    """Install into a new virtual environment with pinned versions; return its python."""
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "-qq", "--python", python]
    run(*pip, "install", "-c", ROOT / "constraints.txt", requirement)
    return python


def installed(python: Path) -> set[str]:
    code = "import importlib.metadata as m; print(*(d.name for d in m.distributions()))"
    return set(run(python, "-c", code).lower().split())


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    return folder


@pytest.fixture(scope="session")
def wheel(dist: Path) -> Path:
    return next(dist.glob("*.whl"))


@pytest.fixture(scope="session")
def sdist(dist: Path) -> Path:
    return next(dist.glob("*.tar.gz"))


def data_files() -> set[str]:
    statements = (PACKAGE / "engines" / "sqlite").rglob("*.sql")
    return {path.relative_to(PACKAGE.parent).as_posix() for path in [*statements, PACKAGE / "py.typed"]}


def test_there_are_statements_to_ship() -> None:
    assert len(data_files()) > 1


def test_the_wheel_holds_every_statement_and_the_type_marker(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert data_files() <= set(archive.namelist())


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"windlass"}


def test_the_sdist_holds_every_statement_and_the_type_marker(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/src/")[2] for name in archive.getnames()}
    assert data_files() <= names


def test_make_dist_accepts_whole_archives(dist: Path) -> None:
    assert "all there" in run(sys.executable, CHECK, dist)


def test_make_dist_refuses_a_wheel_without_its_statements(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    (tmp_path / sdist.name).write_bytes(sdist.read_bytes())
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(tmp_path / wheel.name, "w") as broken:
        kept: Iterable[str] = (name for name in whole.namelist() if not name.endswith(".sql"))
        for name in kept:
            broken.writestr(name, whole.read(name))
    done = subprocess.run([sys.executable, CHECK, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"{wheel.name} lacks windlass/engines/sqlite/" in done.stdout


def test_the_wheel_works_in_an_empty_environment_without_extras(wheel: Path, tmp_path: Path) -> None:
    python = install(tmp_path / "venv", str(wheel))
    of_rich = {"rich", "markdown-it-py", "mdurl", "pygments"}
    assert installed(python) == {"windlass", "msgspec", "apsw", "click", "psutil"} | of_rich
    assert str(tmp_path / "venv") in run(python, "-c", SMOKE, cwd=tmp_path)


def test_the_wheel_works_in_an_empty_environment_with_all_extras(wheel: Path, tmp_path: Path) -> None:
    python = install(tmp_path / "venv", f"{wheel}[all]")
    assert {"pydantic", "pytest", "hypothesis", "watchfiles", "setproctitle", "redis", "hiredis"} <= installed(python)
    assert str(tmp_path / "venv") in run(python, "-c", SMOKE, cwd=tmp_path)
    run(python, "-c", "import windlass.testing", cwd=tmp_path)
