"""Check that the wheel and the sdist of a folder hold every file of the package that is not Python.

    python scripts/check_dist.py <folder>

A package without its .sql files installs, imports, and fails at the first job; this is where that is seen.
"""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "windlass"


def expected() -> set[str]:
    """Name what both archives must hold, relative to `src/`: py.typed and every .sql file."""
    statements = {path.relative_to(PACKAGE.parent).as_posix() for path in PACKAGE.rglob("*.sql")}
    if not statements:
        raise SystemExit("src/windlass holds no .sql file: the check would pass whatever the archives hold.")
    return {"windlass/py.typed"} | statements


def names(archive: Path) -> set[str]:
    """Name the files of one archive as they are named below `src/`."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return set(wheel.namelist())
    with tarfile.open(archive) as sdist:
        return {name.partition("/src/")[2] for name in sdist.getnames()}


def main(folder: Path) -> int:
    """Print one line per archive; the exit status is 0 only if both are there and whole."""
    wheels, sdists = sorted(folder.glob("*.whl")), sorted(folder.glob("*.tar.gz"))
    if len(wheels) != 1 or len(sdists) != 1:
        print(f"{folder} must hold one wheel and one sdist; it holds {len(wheels)} and {len(sdists)}.")
        return 1
    status = 0
    for archive in wheels + sdists:
        missing = sorted(expected() - names(archive))
        for name in missing:
            print(f"{archive.name} lacks {name}")
        if missing:
            status = 1
        else:
            print(f"{archive.name}: {len(expected())} data files, all there")
    return status


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Say which folder holds the archives: python scripts/check_dist.py <folder>")
    sys.exit(main(Path(sys.argv[1])))
