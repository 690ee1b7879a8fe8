"""A story that writes a key of every kind, in a namespace that belongs to a test."""

from __future__ import annotations

from tests.servers.leaks import key_of
from tests.servers.namespace import Namespace
from tests.soak.waiting import wait_for
from windlass.core.ids import WorkerId, new_id
from windlass.core.job import Edge, Outcome, Unique
from windlass.core.rates import Rate
from windlass.engines.protocol import Change, Delta, Hint, Interest
from windlass.testing.conformance import Harness
from windlass.testing.conformance.harness import ERROR, HOUR_US, SECOND_US, Listener

YEARS_S = 2 * 366 * 86_400
"""Longer than anything is kept."""


class Watch:
    """Looks now and then which entries of the map there are keys of."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self.seen: set[str] = set()

    def names(self) -> list[str]:
        tag = f"{{{self._namespace.name}}}:".encode()
        found = [key_of(name.removeprefix(tag)) for name in self._namespace.keys()]  # noqa: SIM118
        return sorted(key.name for key in found if key is not None)

    def look(self) -> None:
        self.seen.update(self.names())


def live_through_everything(harness: Harness, namespace: Namespace) -> set[str]:
    """Jobs of every kind come, run, end and are purged; the worker says bye. Which entries of the map were met.

    The harness keeps so little of a log (`log_bytes`) that five lines have a head and a tail.
    """
    watch = Watch(namespace)
    worker = harness.worker(tasks=("task", "parent"))
    _send_every_kind(harness)
    watch.look()
    _run_every_way(harness, worker, watch)
    _sleep(harness, watch)
    harness.put("queue/busy", None)
    harness.jump(2 * 3_600)
    while harness.drain(worker):
        harness.sweep_all()
    harness.jump(YEARS_S)
    harness.sweep_all()
    harness.renew(worker, bye=True)
    return watch.seen


def _send_every_kind(harness: Harness) -> None:
    harness.send(delay_us=HOUR_US)
    harness.send(expires_us=harness.now_us + HOUR_US, delay_us=HOUR_US)
    harness.send(unique=Unique("a", "end"))
    harness.send(unique=Unique("b", "time", 60 * SECOND_US))
    for _ in range(3):
        harness.send(lane="lane")
    parent = harness.send("parent", queue="parents")
    harness.send(parents=(Edge(parent),))
    flow = new_id()
    harness.send(flow=flow)
    harness.start_flow(flow)
    harness.set_gate("queue/busy", ttl_us=HOUR_US, rate=Rate(1, SECOND_US, 3))
    harness.send(queue="busy", gate="shared")


def _run_every_way(harness: Harness, worker: WorkerId, watch: Watch) -> None:
    harness.renew(worker, Delta(queue="default", task="task", name="succeeded", n=1))
    cancelled, failed, split, *others = harness.claim(worker)
    harness.amend(Change.CANCEL, cancelled.id)
    for claim in (cancelled, failed):
        for line in range(5):
            harness.note(claim, "log", b"line %d" % line)
        harness.note(claim, "progress", b"{}")
        harness.note(claim, "step", b"{}", key="one")
    watch.look()
    harness.finish(cancelled, Outcome.CANCELLED)
    harness.finish(failed, Outcome.FAILED, delay_s=1, failure=ERROR)
    harness.finish(split, follow_ups=tuple(harness.new() for _ in range(250)))
    watch.look()
    for claim in others:
        harness.finish(claim, result=b"result")
    watch.look()


def _sleep(harness: Harness, watch: Watch) -> None:
    """One who listens for a queue on which nothing comes, until it is told to stop."""
    bell = new_id()
    listener = Listener(harness.engine, Interest(queues=("quiet",), bell=bell))

    def is_idle() -> bool:
        watch.look()
        return "idle:<room>" in watch.seen

    wait_for("a listener that sleeps", is_idle)
    harness.engine.signal([Hint(kind="order", id=bell)])
    assert listener.heard() == {"order"}
