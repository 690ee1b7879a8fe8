"""Story I, its second part: the server is away for a while under load, and how soon workers go on when it is back.

    back    from the moment in which the server answers again until a job begins

While it is away nobody asks without pause, and nobody fills the log: connections and lines are counted.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.servers import binaries
from tests.servers.proxy import Proxy
from tests.servers.redis_server import RedisServer
from tests.soak.checker import Violation
from tests.soak.fleet import LOOK_S, Fleet, payload
from tests.soak.kills import Report
from tests.soak.recovery import figures
from tests.soak.runs import begun
from tests.soak.waiting import wait_for
from windlass.core.ids import new_id
from windlass.core.job import Request

BAR_MS = 2_000.0
ASKED_A_SECOND = 20
LINES_AN_OUTAGE = 20
"""What one supervisor may do of each."""
TIMES = "timeout=1&connect_timeout=1"


@dataclass(frozen=True, slots=True)
class Shape:
    """How many outages there are, and how long each is."""

    outages: int = 4
    away_s: float = 30.0
    supervisors: int = 2
    backlog: int = 200


def run_round(folder: Path, shape: Shape) -> Report:
    """All of them, one after the other, on one server."""
    report = Report()
    with ExitStack() as stack:
        server = RedisServer(binaries.valkey(), folder / "r", appendonly="always")
        stack.callback(server.end)
        server.start()
        proxy = stack.enter_context(Proxy(server.port))
        fleet = stack.enter_context(Fleet(folder, server.url("soak")))
        for _ in range(shape.supervisors):
            fleet.wait_up(fleet.start("-p", "1", "-c", "2", url=f"{proxy.url(fleet.url)}&{TIMES}"))
        for _ in range(shape.outages):
            _go_away(fleet, server, proxy, shape, report)
        fleet.wait_ended()
        report.violations += [Violation("progress", "", wrong) for wrong in fleet.stop()]
        lines = sum(len(worker.lines()) for worker in fleet.workers)
    report.counts["log lines in outages"] += lines
    if lines > shape.supervisors * shape.outages * LINES_AN_OUTAGE:
        report.violations.append(Violation("outage", "", f"{lines} lines were logged"))
    return report


def missed(times_ms: dict[str, list[float]]) -> list[Violation]:
    """Whether workers were slower than they may be to go on."""
    p99 = figures(times_ms["back"])["p99"]
    return [Violation("outage", "", f"p99 is {p99:.0f} ms, and the bar {BAR_MS:.0f} ms")] if p99 > BAR_MS else []


def _go_away(fleet: Fleet, server: RedisServer, proxy: Proxy, shape: Shape, report: Report) -> None:
    """With jobs that wait, run and end just then."""
    fleet.insert([Request(id=new_id(), task="good", payload=payload(50)) for _ in range(shape.backlog)])
    before = len(begun(fleet.marks.read()))
    wait_for("load", lambda: len(begun(fleet.marks.read())) > before + 10, step_s=LOOK_S)
    server.kill()
    asked = proxy.counts().connections
    time.sleep(shape.away_s)
    asked = proxy.counts().connections - asked
    server.start()
    back_ns = time.monotonic_ns()
    first = wait_for("a job to begin", lambda: [m for m in begun(fleet.marks.read()) if m.at > back_ns], step_s=LOOK_S)
    report.times_ms.setdefault("back", []).append((first[0].at - back_ns) / 1e6)
    report.faults["outage"] += 1
    report.counts["jobs"] += shape.backlog
    report.counts["connections in outages"] += asked
    if asked > shape.supervisors * shape.away_s * ASKED_A_SECOND:
        report.violations.append(Violation("outage", "", f"the server was asked {asked} times while it was away"))
