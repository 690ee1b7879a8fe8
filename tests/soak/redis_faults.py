"""Story I: supervisors and senders on a Valkey that is killed, behind lines that fail, until every job has ended.

    sender ──── proxy ──┐
    sender ──── proxy ──┤
    supervisor ─ proxy ─┼── Valkey, AOF always          a fault hits one process, one line, or the server;
    supervisor ─ proxy ─┤                               some lines are mended only after the next fault
    supervisor ─ proxy ─┘

Leases are short, so a supervisor that was killed, stopped or cut off loses its jobs while the round goes on. What a
server with AOF acknowledged outlives it: every invariant of the story of kills is asked for, and no key may be left.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tests.servers import binaries
from tests.servers.namespace import Namespace
from tests.servers.proxy import Proxy
from tests.servers.redis_server import RedisServer
from tests.soak.checker import ALL, Evidence, Violation, digest, hear_repeats
from tests.soak.fleet import LOOK_S, Fleet, Supervised
from tests.soak.kills import Report, count, judge
from tests.soak.recorder import read_folder, read_ledger
from tests.soak.redis_store import look
from tests.soak.runs import begun
from tests.soak.sender import Assignment, mixture
from tests.soak.waiting import Hangs, wait_for
from tests.soak.worker import ROOT
from tests.soak.workload import Deed
from windlass.engines.protocol import TallyQuery

LEASE_S = 2.0
SETTINGS = {"lease": f"{LEASE_S}s", "beat": "0.4s", "sweep": "0.3s"}
TIMES = "timeout=1&connect_timeout=1"
NAME = "soak"
ROUNDS = 30
WHOLE_S, ENOUGH_KILLS, ENOUGH_CUTS = 1_200.0, 200, 100
"""The whole story lasts so long at least, with so many processes killed and lines hurt."""

KILLS = {"supervisor": 4, "runner": 3, "sender": 2, "server": 3}
LINES: dict[str, Callable[[Proxy], None]] = {
    "reset": Proxy.reset_all,
    "black hole": Proxy.black_hole,
    "half open": Proxy.half_open,
    "late": Proxy.hold,
    "refused": lambda proxy: (proxy.refuse(), proxy.reset_all())[1],
    "slow": lambda proxy: proxy.delay(to_server_ms=20, to_client_ms=20),
    "replies lost": lambda proxy: proxy.drop_replies(3),
    "replies cut": lambda proxy: proxy.cut_replies(4, 4),
}
BESIDES = {"stop of a supervisor": 1, "script flush": 1}
WEIGHTS = {
    **{f"kill -9 of a {name}": weight for name, weight in KILLS.items()},
    **dict.fromkeys((f"line: {name}" for name in LINES), 1),
    **BESIDES,
}


@dataclass(frozen=True, slots=True)
class Shape:
    """How big a round is and what is done to it."""

    jobs: int = 2_000
    faults: int = 30
    supervisors: int = 3
    senders: int = 2
    slots: int = 2
    hang_s: float = 120.0


@dataclass(slots=True)
class Sender:
    """One share of the jobs, and the process that sends it now."""

    given: Assignment
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.soak.sender", msgspec.json.encode(self.given).decode()]
        with self.given.file.with_suffix(".stderr").open("wb") as errors:
            return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=errors)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def succeed(self) -> None:
        """Another process goes on where this one was."""
        self.given = msgspec.structs.replace(self.given, generation=self.given.generation + 1)
        self.process = self._start()


class Stage:
    """Everything that can be hurt."""

    def __init__(self, folder: Path, seed: int, shape: Shape, stack: ExitStack) -> None:
        self.shape = shape
        self.folder = folder
        self.server = RedisServer(binaries.valkey(), folder / "r", appendonly="always")
        stack.callback(self.server.end)
        self.server.start()
        lines = shape.supervisors + shape.senders
        self.proxies = [stack.enter_context(Proxy(self.server.port)) for _ in range(lines)]
        self.fleet = stack.enter_context(Fleet(folder, self.server.url(NAME), **SETTINGS))
        self.supervisors = [self._supervisor(place) for place in range(shape.supervisors)]
        self.refused = 0
        """Supervisors that found no server when they started."""
        self.senders: list[Sender] = []
        for share in range(shape.senders):
            given = Assignment(
                url=self._url(shape.supervisors + share),
                folder=str(folder),
                seed=seed,
                jobs=shape.jobs,
                stages=shape.faults + 1,
                share=share,
                shares=shape.senders,
            )
            self.senders.append(Sender(given))
            stack.callback(self.senders[-1].kill)

    @property
    def namespace(self) -> Namespace:
        return Namespace(self.server.url(), NAME)

    def _url(self, place: int) -> str:
        return f"{self.proxies[place].url(self.server.url(NAME))}&{TIMES}"

    def _supervisor(self, place: int) -> Supervised:
        return self.fleet.start_recorded(1, self.shape.slots, url=self._url(place))

    def release(self) -> None:
        """Lets the next part of the jobs out."""
        with (self.folder / "release").open("ab") as file:
            file.write(b".")

    def renew(self) -> None:
        """New processes for those that were killed."""
        for place, supervisor in enumerate(self.supervisors):
            if supervisor.process.returncode is not None:
                self.supervisors[place] = self._supervisor(place)
        for sender in self.senders:
            if sender.process.returncode == -signal.SIGKILL:
                sender.succeed()

    def mend(self) -> None:
        for proxy in self.proxies:
            proxy.pass_on()

    def check(self) -> None:
        """Nobody has ended but by us. Who finds no server when it starts ends, and is started again, as by an init."""
        for place, supervisor in enumerate(self.supervisors):
            if supervisor.process.poll() is not None and "StoreUnavailable: " in supervisor.said():
                self.refused += 1
                self.supervisors[place] = self._supervisor(place)
            else:
                supervisor.check()
        for sender in self.senders:
            if sender.process.poll():
                raise Hangs(f"a sender ended with {sender.process.returncode}")

    def wait_for_marks(self, marks: int) -> None:
        """Until tasks have written so many."""

        def written() -> bool:
            self.check()
            return len(self.fleet.marks.read()) >= marks

        wait_for("jobs to run", written, hang_s=self.shape.hang_s, step_s=LOOK_S)

    def wait_ended(self) -> None:
        """Until all are up, all is sent and has ended, and the dead are buried."""
        wait_for("all supervisors", self._are_up, hang_s=self.shape.hang_s, step_s=LOOK_S)
        for _ in range(self.shape.faults + 1):
            self.release()
        for sender in self.senders:
            if sender.process.wait(self.shape.hang_s):
                raise Hangs(f"a sender ended with {sender.process.returncode}")
        self.fleet.wait_ended(self.shape.hang_s)
        living = {supervisor.pid for supervisor in self.supervisors}
        wait_for("the dead to be buried", lambda: self._cards() == living, hang_s=self.shape.hang_s, step_s=LOOK_S)

    def _are_up(self) -> bool:
        self.check()
        return self._cards() >= {supervisor.pid for supervisor in self.supervisors}

    def _cards(self) -> set[int]:
        return {card.pid for card in self.fleet.engine.tally(TallyQuery()).cards}


class Nemesis:
    """Who hurts them, after a plan that the seed makes."""

    def __init__(self, stage: Stage, seed: int, report: Report) -> None:
        self._stage = stage
        self._dice = random.Random(f"nemesis {seed}")
        self._report = report

    def hurt(self) -> None:
        """A part of the jobs, some progress, a fault; again and again."""
        stage, shape = self._stage, self._stage.shape
        part = shape.jobs // (shape.faults + 1)
        for _ in range(shape.faults):
            some = len(stage.fleet.marks.read()) + self._dice.randint(1, part)
            stage.release()
            stage.wait_for_marks(some)
            time.sleep(self._dice.random() * 0.1)
            (kind,) = self._dice.choices(list(WEIGHTS), list(WEIGHTS.values()))
            if not kind.startswith("line") and self._dice.random() < 0.7:
                stage.mend()
            self._strike(kind)
            self._report.faults[kind] += 1
            stage.renew()
        stage.mend()

    def _strike(self, kind: str) -> None:
        stage = self._stage
        match kind.removeprefix("kill -9 of a "):
            case "supervisor":
                self._dice.choice(stage.supervisors).kill()
            case "runner":
                self._kill_runner()
            case "sender":
                self._dice.choice(stage.senders).kill()
            case "server":
                stage.server.kill()
                time.sleep(self._dice.random())
                stage.server.start()
            case "stop of a supervisor":
                self._stop_supervisor()
            case "script flush":
                with stage.server.client() as client:
                    client.script_flush()
            case _:
                self._cut(kind.removeprefix("line: "))

    def _kill_runner(self) -> None:
        wait_for("a runner to kill", self._kills_one, step_s=LOOK_S)

    def _kills_one(self) -> bool:
        victims = self._dice.choice(self._stage.supervisors).runners()
        with suppress(ProcessLookupError):
            if victims:
                os.kill(self._dice.choice(victims), signal.SIGKILL)
                return True
        return False

    def _stop_supervisor(self) -> None:
        """For a moment, or for longer than its lease."""
        victim = self._dice.choice(self._stage.supervisors)
        victim.send(signal.SIGSTOP)
        time.sleep(self._dice.random() * 2 * LEASE_S)
        victim.send(signal.SIGCONT)

    def _cut(self, name: str) -> None:
        """One line or all, for a moment or for longer than a lease; some stay as they are until the next fault."""
        proxies = self._stage.proxies
        hurt = proxies if self._dice.random() < 0.25 else [self._dice.choice(proxies)]
        for proxy in hurt:
            LINES[name](proxy)
        time.sleep(self._dice.random() * (2 * LEASE_S if self._dice.random() < 0.2 else 1))
        if len(hurt) > 1 or self._dice.random() < 0.7:
            self._stage.mend()


def run_round(folder: Path, seed: int, shape: Shape) -> Report:
    """One round in an empty folder: work under fire, drain, check."""
    report = Report()
    with ExitStack() as stack:
        stage = Stage(folder, seed, shape, stack)
        try:
            Nemesis(stage, seed, report).hurt()
            stage.wait_ended()
        except (Hangs, subprocess.TimeoutExpired) as error:
            report.violations.append(Violation("progress", "", str(error)))
            stage.mend()
        report.violations += [Violation("progress", "", wrong) for wrong in stage.fleet.stop()]
        _judge(stage, seed, report)
    return report


def _judge(stage: Stage, seed: int, report: Report) -> None:
    lines, marks = read_folder(stage.folder), stage.fleet.marks.read()
    plan = {request.id.hex(): request for request in mixture(seed, stage.shape.jobs)}
    evidence = Evidence(
        plan,
        hear_repeats(digest(lines)),
        look(stage.namespace),
        read_ledger(stage.folder / "ledger"),
        marks=marks,
        read_deed=lambda _: Deed(),
        leases=True,
    )
    judge(report, f"seed {seed}", evidence, lines, ALL)
    report.counts["runs"] += len(begun(marks))
    report.counts["refused starts"] += stage.refused
    report.counts["connections"] += sum(proxy.counts().connections for proxy in stage.proxies)
    report.counts["log lines"] += sum(len(worker.lines()) for worker in stage.fleet.workers)
    count(report, evidence)


def is_enough(report: Report, passed_s: float) -> bool:
    """Whether the whole story has been told."""
    kills = sum(n for kind, n in report.faults.items() if kind.startswith("kill"))
    cuts = sum(n for kind, n in report.faults.items() if kind.startswith("line"))
    return passed_s >= WHOLE_S and kills >= ENOUGH_KILLS and cuts >= ENOUGH_CUTS
