"""The ground of the group `embedded`: a store is a file in a folder of its own."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from bench.race.entries import Product
from bench.race.ground import Fill


class FilePlace(msgspec.Struct, frozen=True):
    """A folder with a store in it. Nobody serves it: all CPU time is that of senders and workers."""

    product: Product
    folder: Path

    @property
    def store(self) -> str:
        return str(self.folder / "store.db")

    def env(self, *, far: bool) -> dict[str, str]:
        if far:
            raise RuntimeError("A file is not far away.")
        return {"RACE_STORE": self.store}

    def stored(self, sent: int) -> int:
        """Counted by the contestant's own file."""
        return self._count(self.product.stored.sql, self.product.stored.beside)

    def waiting(self) -> int:
        return self._count(self.product.waiting)

    def cpu_s(self) -> float:
        return 0.0

    def _count(self, sql: str, beside: str = "") -> int:
        with closing(sqlite3.connect(f"file:{self.store}{beside}?mode=ro", uri=True, timeout=30)) as database:
            return database.execute(sql).fetchone()[0]


class Files:
    """Folders on the disk. A store is filled once for each size; every drain gets a copy, synced before it starts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def prepare(self, product: Product) -> str:
        """Nothing: files need no server."""
        return ""

    @contextmanager
    def fresh(self, product: Product, name: str) -> Generator[FilePlace]:
        """An empty folder."""
        folder = self._folder / name
        folder.mkdir(parents=True)
        try:
            yield FilePlace(product, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def filled(self, product: Product, name: str, jobs: int, fill: Fill) -> Generator[FilePlace]:
        """A copy of a store of so many jobs."""
        full = self._folder / f"{name}-{jobs}"
        if not full.exists():
            with self.fresh(product, name) as place:
                fill(place, jobs)
                place.folder.rename(full)
        with self.fresh(product, name) as place:
            shutil.copytree(full, place.folder, dirs_exist_ok=True)
            os.sync()
            yield place
