"""A process that does what it is told, one line at a time: for tests of single faults.

`Actor` is the test's side, `python -m tests.soak.actor <database> <disk_floor>` the other. A call's answer comes when
the engine has answered, so a test never has to guess how far the process has come. Errors come back by name.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from windlass.core.ids import new_id
from windlass.core.job import Job, Request
from windlass.engines.protocol import Beat, Card, Order, Put, Settlement, Sweep
from windlass.engines.sqlite import SqliteEngine

ROOT = Path(__file__).resolve().parents[2]


class Ask(msgspec.Struct, omit_defaults=True):
    """What to do, with how many jobs or which."""

    do: str
    n: int = 0
    ids: list[str] = []
    payload: int = 0


class Told(msgspec.Struct, omit_defaults=True):
    """What came of it. `error` names the error where there was one."""

    ids: list[str] = []
    words: list[str] = []
    error: str = ""
    text: str = ""


class Failed(AssertionError):
    """The process answered with an error."""

    def __init__(self, told: Told) -> None:
        super().__init__(f"{told.error}: {told.text}")
        self.told = told


class Actor:
    """A process of our own that obeys."""

    def __init__(self, database: Path, *, before: Sequence[str] = (), disk_floor: int = 0) -> None:
        command = [*before, sys.executable, "-m", "tests.soak.actor", str(database), str(disk_floor)]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def send(self, do: str, n: int = 0, ids: Sequence[str] = (), payload: int = 0) -> None:
        """Tells it and does not wait."""
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode(Ask(do, n, list(ids), payload)) + b"\n")
        self.process.stdin.flush()

    def hear(self) -> Told:
        """Its next answer, an error too."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the process has gone: {self.process.poll()}"
        return msgspec.json.decode(line, type=Told)

    def ask(self, do: str, n: int = 0, ids: Sequence[str] = (), payload: int = 0) -> Told:
        """Its answer, an error too."""
        self.send(do, n, ids, payload)
        return self.hear()

    def must(self, do: str, n: int = 0, ids: Sequence[str] = (), payload: int = 0) -> Told:
        """Its answer, which is no error."""
        told = self.ask(do, n, ids, payload)
        if told.error:
            raise Failed(told)
        return told

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.end()

    def end(self) -> None:
        """Closes the pipes and makes sure that it is gone."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        if self.process.poll() is None:
            try:
                self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def __enter__(self) -> Actor:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class Part:
    """The other side: one engine, one worker, and the claims it holds."""

    def __init__(self, database: str, disk_floor: int) -> None:
        self._engine = SqliteEngine(database, disk_floor=disk_floor, disk_reserve=1 << 18)
        self._worker = new_id()
        self._ticket = 0
        self._fences: dict[str, int] = {}
        self._children: list[int] = []

    def play(self, ask: Ask) -> Told:
        """Does one thing."""
        return getattr(self, f"do_{ask.do}")(ask)

    def do_open(self, _: Ask) -> Told:
        return Told(words=list(self._engine.open().notices))

    def do_close(self, _: Ask) -> Told:
        self._engine.close()
        return Told()

    def do_announce(self, _: Ask) -> Told:
        self._engine.renew(Beat(card=Card(worker=self._worker, pid=os.getpid()), beat=0))
        return Told(ids=[self._worker.hex()])

    def do_insert(self, ask: Ask) -> Told:
        ids = [bytes.fromhex(job) for job in ask.ids] or [new_id() for _ in range(ask.n)]
        jobs = [Job(request=Request(id=job_id, task="task", payload=b"x" * ask.payload)) for job_id in ids]
        receipts = self._engine.insert(jobs)
        return Told(ids=[receipt.id.hex() for receipt in receipts])

    def do_claim(self, ask: Ask) -> Told:
        self._ticket += 1
        claims = self._engine.claim(Order(worker=self._worker, ticket=self._ticket, limit=ask.n)).claims
        self._fences |= {claim.id.hex(): claim.fence for claim in claims}
        return Told(ids=[claim.id.hex() for claim in claims])

    def do_settle(self, ask: Ask) -> Told:
        settlements = [Settlement(id=bytes.fromhex(job), fence=self._fences[job]) for job in ask.ids]
        return Told(ids=ask.ids, words=[verdict.value for verdict in self._engine.settle(settlements)])

    def do_sweep(self, _: Ask) -> Told:
        swept = self._engine.sweep(Sweep())
        return Told(words=[str(swept.workers), str(swept.lost)])

    def do_fill(self, ask: Ask) -> Told:
        """Writes facts until the WAL has grown by about so many bytes."""
        for number in range(ask.n // 60_000 + 1):
            self._engine.write([Put(key=f"fill/{number % 4}", value=b"x" * 60_000)])
        return Told()

    def do_states(self, ask: Ask) -> Told:
        found = self._engine.fetch([bytes.fromhex(job) for job in ask.ids])
        return Told(words=["gone" if job is None or job.record is None else job.record.state for job in found])

    def do_fork(self, _: Ask) -> Told:
        """A forked child inserts one job with its own connection, says which, and stays until it is killed."""
        read, write = os.pipe()
        child = os.fork()
        if not child:
            try:
                os.write(write, self._engine.insert([Job(request=Request(id=new_id(), task="child"))])[0].id)
            except BaseException as error:
                os.write(write, f"!{type(error).__name__}: {error}".encode())
            # The pipes to the test are not ours; whoever ends us is the test.
            while True:
                signal.pause()
        self._children.append(child)
        answer = os.read(read, 4_096)
        os.close(read)
        os.close(write)
        if answer.startswith(b"!"):
            return Told(error="ForkedChild", text=answer.decode())
        return Told(ids=[answer.hex()], words=[str(child)])

    def do_reap(self, _: Ask) -> Told:
        """Ends the forked children."""
        for child in self._children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        self._children.clear()
        return Told()


def main() -> None:
    """Reads a line, does it, answers; until the line is closed."""
    part = Part(sys.argv[1], int(sys.argv[2]))
    for line in sys.stdin.buffer:
        try:
            told: Any = part.play(msgspec.json.decode(line, type=Ask))
        except Exception as error:
            told = Told(error=type(error).__name__, text=str(error))
        sys.stdout.buffer.write(msgspec.json.encode(told) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
