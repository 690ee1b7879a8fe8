"""Run the conformance suite on every other minor version of CPython >= 3.11 of the machine, from the built wheel.

    python scripts/test_pythons.py <folder for the JUnit reports>

Looked at: python3.11 ... python3.15 on the PATH, python3, and those that pyenv has installed. Each minor
version is tested once, in a virtual environment of its own under .cache/pythons/<version>, with nothing but the
wheel and its `testing` extra: this also shows that the wheel is whole and the suite needs no tool of ours.
The Python that runs this script is left out, because all of it has run on it. Pre-releases and
free-threaded builds are named and left out.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"
SUITE = ROOT / "tests" / "conformance"
FILES = ("test_memory.py", "test_machine_memory.py", "test_sqlite.py", "test_machine_sqlite.py")
"""The engines that need no server: that of redis is the same Python code on every version, and its scripts are Lua."""
LEFT_OUT = "not ByLease and not hundred_thousand"
"""What takes long, and differs by nothing that a version of Python changes."""
NAMES = ["python3", *(f"python3.{minor}" for minor in range(11, 16))]
TIMEOUT_S = 900
PROBE = """
import platform, sys, sysconfig
import venv
kind = "free-threaded" if sysconfig.get_config_var("Py_GIL_DISABLED") else sys.version_info.releaselevel
print(platform.python_implementation(), platform.python_version(), kind, *sys.version_info[:2])
"""
# The project's own pytest settings name plug-ins that a user of the `testing` extra does not have.
SETTINGS = f"""[pytest]
addopts = --import-mode=importlib --strict-markers -p no:cacheprovider -m "not soak"
pythonpath = {ROOT}
consider_namespace_packages = true
filterwarnings = error
xfail_strict = true
markers =
    soak: a long test
    xdist_group(name): has no meaning here
    timeout(seconds): has no meaning here
"""


@dataclass(frozen=True)
class Python:
    """One interpreter that was started and told its version."""

    path: str
    version: str
    kind: str

    @property
    def minor(self) -> str:
        return self.version.rpartition(".")[0]


class Failed(Exception):
    """A step before the tests did not work; the text is what it printed."""


def probe(path: str) -> Python | None:
    """Ask an interpreter who it is; None if it does not run (a shim), is not CPython or is too old."""
    try:
        answer = subprocess.run(
            [path, "-I", "-c", PROBE], capture_output=True, text=True, timeout=30, check=True
        ).stdout.split()
        implementation, version, kind, major, minor = answer
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    if implementation != "CPython" or (int(major), int(minor)) < (3, 11):
        return None
    return Python(path, version, kind)


def candidates() -> list[str]:
    """List the paths worth asking: every match of each name on the PATH, then pyenv's."""
    folders = os.environ.get("PATH", "").split(os.pathsep)
    paths = [os.path.join(folder, name) for name in NAMES for folder in folders if folder]
    pyenv = Path(os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")) / "versions"
    paths += [str(path) for path in sorted(pyenv.glob("*/bin/python"))]
    return [path for path in dict.fromkeys(paths) if os.access(path, os.X_OK)]


def found() -> list[Python]:
    """Find one of each minor version and kind, that of the running one left out, oldest first."""
    own = probe(sys.executable)
    pythons: dict[tuple[str, str], Python] = {}
    for path in candidates():
        python = probe(path)
        if python and not (own and python.minor == own.minor and python.kind == own.kind):
            pythons.setdefault((python.minor, python.kind), python)
    return sorted(pythons.values(), key=lambda python: [int(part) for part in python.version.split(".")[:2]])


def run(*command: str | Path) -> None:
    """Run a step to its end; raise with all it printed if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Failed(done.stdout.strip())


def build_wheel() -> Path:
    """Build the wheel afresh and return its path."""
    folder = CACHE / "wheel"
    shutil.rmtree(folder, ignore_errors=True)
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
    return next(folder.glob("*.whl"))


def environment(python: Python, wheel: Path) -> Path:
    """Make or refresh the interpreter's virtual environment; return its python.

    What it installs from elsewhere is kept as long as the project's requirements stay the same; the
    wheel is always installed again. pip is taken from the running environment, so the interpreter needs
    no pip of its own.
    """
    folder = CACHE / "pythons" / python.version
    executable = folder / "bin" / "python"
    stamp = folder / "requirements.sha256"
    needs = b"".join((ROOT / name).read_bytes() for name in ("pyproject.toml", "constraints.txt"))
    digest = hashlib.sha256(needs).hexdigest()
    pip = [sys.executable, "-m", "pip", "-qq", "--python", executable, "install"]
    pip += ["-c", ROOT / "constraints.txt"]
    if not (stamp.exists() and stamp.read_text() == digest and probe(str(executable))):
        shutil.rmtree(folder, ignore_errors=True)
        run(python.path, "-m", "venv", "--without-pip", folder)
        run(*pip, f"{wheel}[testing]")
        stamp.write_text(digest)
    else:
        run(*pip, "--force-reinstall", "--no-deps", wheel)
    return executable


def write_failure(report: Path, version: str, text: str) -> None:
    """Leave a report with one failed test, so that the sum shows that this version could not be tested."""
    report.write_text(
        f'<testsuites><testsuite><testcase classname="python" name={quoteattr(version)}>'
        f"<error message={quoteattr(text[-500:])}/></testcase></testsuite></testsuites>\n",
        encoding="utf-8",
    )


def conformance(python: Python, wheel: Path, report: Path) -> str:
    """Run the suite on one interpreter; return an empty string, or what it printed if it failed."""
    executable = environment(python, wheel)
    settings = executable.parent.parent / "pytest.ini"
    settings.write_text(SETTINGS, encoding="utf-8")
    command = [executable, "-m", "pytest", "-q", "-c", settings, "--rootdir", ROOT]
    command += [f"--junitxml={report}", "-k", LEFT_OUT, *(SUITE / name for name in FILES)]
    try:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=settings.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"the suite did not end within {TIMEOUT_S} s") from None
    if not report.exists():
        raise Failed(done.stdout.strip() or f"pytest ended with status {done.returncode} and no report")
    return done.stdout.strip() if done.returncode else ""


def passed(report: Path) -> int:
    """Count the tests of a report that passed."""
    cases = ElementTree.parse(report).getroot().iter("testcase")
    return sum(all(case.find(mark) is None for mark in ("failure", "error", "skipped")) for case in cases)


def test(python: Python, wheel: Path, reports: Path) -> bool:
    """Test one interpreter and print its line; True if all is well."""
    start = time.monotonic()
    report = reports / f"python-{python.version}.xml"
    try:
        output = conformance(python, wheel, report)
    except Failed as error:
        output = str(error)
        write_failure(report, python.version, output)
    verdict = f"{passed(report)} passed" + (", FAILED" if output else "")
    line = f"Python {python.version}: {verdict}, {time.monotonic() - start:.0f} s"
    print(f"{output}\n{line}" if output else line, flush=True)
    return not output


def main(reports: Path) -> int:
    """Test all; the exit status is 0 only if every interpreter passed."""
    reports.mkdir(parents=True, exist_ok=True)
    pythons = found()
    for python in pythons:
        if python.kind != "final":
            print(f"Python {python.version} ({python.kind}): left out")
    pythons = [python for python in pythons if python.kind == "final"]
    if not pythons:
        print("No other Python >= 3.11 was found on this machine.")
        return 0
    try:
        if not SUITE.is_dir():
            raise Failed(f"{SUITE.relative_to(ROOT)} does not exist")
        wheel = build_wheel()
    except Failed as error:
        print(f"Nothing to test other Pythons with: {error}")
        write_failure(reports / "wheel.xml", "wheel", str(error))
        return 1
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        runs = [pool.submit(test, python, wheel, reports.resolve()) for python in pythons]
    return 0 if all(done.result() for done in runs) else 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Say where the reports go: python scripts/test_pythons.py <folder>")
    sys.exit(main(Path(sys.argv[1])))
