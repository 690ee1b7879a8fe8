"""What is wrong, and what to do: each check a small function that gives a finding. Nothing is changed, nothing printed.

`of_machine` needs no store, `of_store` an open engine. A check that is all well says so: a list without the word
"workers" would leave it open whether anybody looked.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from windlass.core.clock import SystemClock
from windlass.core.durations import show
from windlass.core.errors import BadSetting
from windlass.core.job import WAITING, State
from windlass.core.scripts import SCRIPT
from windlass.core.settings import load, unknown_variables
from windlass.engines.findings import Examines, Finding, Level, ok, problem, warning
from windlass.engines.protocol import Card, Engine, Query, Tally, TallyQuery
from windlass.ops.cards import info, is_gone, is_late, is_leaving, knows, label, labels, listens, listing, staying
from windlass.ops.lookup import record_of
from windlass.ops.stats import queues
from windlass.ops.view import error_groups

LONG_US: Final = 15 * 60 * 1_000_000
"""A job that could run and has waited so long is worth a look."""
OFTEN: Final = 5
"""A runner that was replaced more often is worth one too."""

_clock = SystemClock()


class Scene(msgspec.Struct, frozen=True):
    """A store as it was when the doctor came."""

    engine: Engine
    tally: Tally
    now_us: int
    version: str

    @property
    def cards(self) -> list[Card]:
        """Of the workers that live, as far as their cards and this host tell."""
        return [card for card in self.tally.cards if not is_gone(card, self.now_us)]

    def waiting(self, by: str) -> dict[str, int]:
        """How many jobs wait, by queue or by task."""
        found: Counter[str] = Counter()
        for count in self.tally.counts:
            if count.state in WAITING and count.n:
                found[getattr(count, by)] += count.n
        return dict(found)


# ── the machine ─────────────────────────────────────────────────────────────────────────────────────────


def of_machine(url: str | None, environ: Mapping[str, str], start: Path) -> Iterator[Finding]:
    """What can be told without a store."""
    system = f"{platform.system()} {platform.machine()}"
    yield ok("python", f"{platform.python_implementation()} {platform.python_version()}, {system}.")
    yield _environment(environ)
    yield _settings(url, environ, start)


def _environment(environ: Mapping[str, str]) -> Finding:
    unknown = unknown_variables(environ)
    if unknown:
        hints = [f"{variable} (did you mean {meant}?)" if meant else variable for variable, meant in unknown.items()]
        return problem("environment", f"Variables that set nothing: {listing(hints)}.", "Correct or unset them.")
    return ok("environment", "There is no WINDLASS_* variable that sets nothing.")


def _settings(url: str | None, environ: Mapping[str, str], start: Path) -> Finding:
    unknown = unknown_variables(environ)
    known = {variable: value for variable, value in environ.items() if variable not in unknown}
    try:
        loaded = load({"url": url}, known, start)
    except BadSetting as error:
        return problem("settings", error.message, error.todo)
    found = [f"{name} from {origin}" for name, (_, origin) in loaded.origins.items() if origin != "default"]
    return ok("settings", f"Set: {listing(found, 10)}." if found else "All are defaults.")


# ── the store ───────────────────────────────────────────────────────────────────────────────────────────


def of_store(engine: Engine, version: str, *, now_us: int | None = None) -> Iterator[Finding]:
    """What can be told of an open store and of those who work on it, who should be of that version of Windlass."""
    now_us = _clock.now_us() if now_us is None else now_us
    yield _kind(engine)
    if isinstance(engine, Examines):
        yield from engine.examine()
    scene = Scene(engine, engine.tally(TallyQuery()), now_us, version)  # no sweep: the doctor changes nothing
    for check in (
        _workers,
        _deaths,
        _lateness,
        _versions,
        _restarts,
        _leavers,
        _listeners,
        _known_tasks,
        _pauses,
        _dead,
        _oldest,
    ):
        yield check(scene)


def _kind(engine: Engine) -> Finding:
    what = engine.capabilities
    if not what.processes:
        said = f"A store of the {what.name} engine lives inside one process; nobody else can look into it."
        return warning("store", said, "Use sqlite:///windlass.db where jobs must outlive a process.")
    return ok("store", f"The {what.name} engine answers.")


def _workers(scene: Scene) -> Finding:
    cards, waiting = scene.cards, sum(scene.waiting("queue").values())
    todo = "Start one: windlass worker tasks.py"
    if not cards and waiting:
        return problem("workers", f"No worker is running; jobs that wait: {waiting:,}.", todo)
    if not cards:
        return warning("workers", "No worker is running.", todo)
    return ok("workers", f"{len(cards)} running: {labels(cards)}.")


def _deaths(scene: Scene) -> Finding:
    dead = [card for card in scene.tally.cards if is_gone(card, scene.now_us)]
    if dead:
        had = sum(scene.engine.search(Query(worker=card.worker, count=True)).count for card in dead)
        said = f"{labels(dead)} died: no sign of life within the lease, and no such process."
        todo = "Start a worker: it takes them back. See why it died."
        return problem("deaths", f"{said} Jobs that were there: {had:,}.", todo)
    return ok("deaths", "No worker is known to have died and left its jobs.")


def _lateness(scene: Scene) -> Finding:
    late = [card for card in scene.cards if is_late(card, scene.now_us)]
    if late:
        said = f"{labels(late)} gave no sign of life within the lease."
        todo = "See whether it is stopped, hangs or has died; its jobs wait for it while it lives."
        return problem("heartbeats", said, todo)
    return ok("heartbeats", "No worker is late with its sign of life.")


def _versions(scene: Scene) -> Finding:
    versions = {label(card): info(card).version for card in scene.cards}
    other = [f"{name} ({version})" for name, version in sorted(versions.items()) if version not in {"", scene.version}]
    if other:
        return warning(
            "versions", f"Workers of another version than {scene.version}: {listing(other)}.", "Restart them."
        )
    return ok("versions", f"Nobody works with another version than {scene.version}.")


def _restarts(scene: Scene) -> Finding:
    often = {
        f"{label(card)} runner {process.number}": process.restarts
        for card in scene.cards
        for process in info(card).processes
        if process.restarts > OFTEN
    }
    if often:
        said = f"Processes that were replaced again and again, and how often: {_counted(often)}."
        return warning(
            "restarts", said, "See the worker's log: jobs kill it, a limit is too low, or it is recycled on purpose."
        )
    return ok("restarts", f"No runner was replaced more than {OFTEN} times.")


def _leavers(scene: Scene) -> Finding:
    leaving = [card for card in scene.cards if is_leaving(card)]
    if leaving:
        todo = "Wait for what still runs (windlass inspect processes), or start another."
        return warning("leaving", f"No more jobs are taken by {labels(leaving)}: draining or stopping.", todo)
    return ok("leaving", "No worker drains or stops.")


def _listeners(scene: Scene) -> Finding:
    cards = scene.cards
    stay = staying(cards)
    alone = {name: n for name, n in scene.waiting("queue").items() if not any(listens(card, name) for card in stay)}
    if cards and alone:
        said = f"No worker takes jobs of {_counted(alone)}."
        return problem("queues", said, "Start a worker for it (-Q), or one without -Q, which takes all.")
    return ok("queues", "Every queue with waiting jobs has a worker." if cards else "There is nobody to take jobs.")


def _known_tasks(scene: Scene) -> Finding:
    cards = scene.cards
    unknown = {name: n for name, n in scene.waiting("task").items() if not any(knows(card, name) for card in cards)}
    if cards and unknown:
        said = f"No worker knows the task of these jobs: {_counted(unknown)}."
        scripts = (
            f" Scripts ({SCRIPT}) need one with their folder: windlass worker --scripts." if SCRIPT in unknown else ""
        )
        return problem("tasks", said, f"Deploy a worker that has it, or cancel its jobs.{scripts}")
    return ok("tasks", "Every task with waiting jobs is known." if cards else "There is nobody to know tasks.")


def _pauses(scene: Scene) -> Finding:
    paused = {
        queue.name: sum(queue.counts.get(state, 0) for state in WAITING)
        for queue in queues(scene.engine, tally=scene.tally)
        if queue.paused
    }
    if paused:
        return warning("pauses", f"Paused: {_counted(paused)}.", "Resume a queue when its reason is gone.")
    return ok("pauses", "No queue with jobs or workers is paused.")


def _dead(scene: Scene) -> Finding:
    found = error_groups(scene.engine)
    if not found.groups:
        return ok("dead jobs", "There are none.")
    count = f"{found.looked_at:,}{' or more' if found.more else ''}"
    errors = listing([f"{group.error} ({group.count:,})" for group in found.groups])
    return warning("dead jobs", f"{count}: {errors}.", "Repair the cause, then send them again: windlass dead retry")


def _oldest(scene: Scene) -> Finding:
    page = scene.engine.search(Query(state=State.READY, until_us=scene.now_us - LONG_US))
    if not page.jobs:
        return ok("waiting", f"No job that could run has waited longer than {show(LONG_US)}.")
    waited_us = scene.now_us - min(record_of(one).due_us for one in page.jobs)
    said = f"Jobs that could run wait, one of them for {show(waited_us)}."
    return warning("waiting", said, "See why: windlass jobs show; start more workers if all slots are taken.")


def _counted(counts: Mapping[str, int]) -> str:
    return listing([f"{name} ({n:,})" for name, n in sorted(counts.items(), key=lambda item: -item[1])])


def worst(findings: Iterable[Finding]) -> Level:
    """The worst level among them."""
    found = {finding.level for finding in findings}
    return next((level for level in (Level.PROBLEM, Level.WARNING) if level in found), Level.OK)
