"""Environments: one virtualenv per product under .cache/, with exactly the versions that entries.toml names."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

from bench.race.entries import Product


def python_of(product: Product, inside: Path) -> Path:
    """The interpreter a product runs in; its environment is made if it is not there or holds other versions.

    Without requirements it is ours. Dependencies are named too and none is fetched besides them, so a run next year
    races the same code.
    """
    if not product.requirements:
        return Path(sys.executable)
    folder = inside / product.seat
    python, stamp = folder / "bin" / "python", folder / "made-of.txt"
    wanted = "\n".join([sys.version, *product.requirements])
    if not stamp.exists() or stamp.read_text() != wanted:
        try:
            venv.create(folder, clear=True, with_pip=True)
            _run(python, "-m", "pip", "install", "--quiet", "--no-deps", *product.requirements)
            _run(python, "-m", "pip", "check")
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)  # half an environment would be taken for a whole one
            raise
        stamp.write_text(wanted)
    return python


def _run(python: Path, *arguments: str) -> None:
    done = subprocess.run([python, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"`{' '.join(arguments)}` failed: {(done.stderr or done.stdout).strip()}")
