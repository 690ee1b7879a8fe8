"""docs/reference/app.md and worker.md name everything a user can call, and every option there is."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from windlass import App, Handle, Handles, JobContext, Middleware, Retry, Secret, Task, Worker
from windlass.app import endings
from windlass.app.middleware import HOOKS
from windlass.app.options import SEND_OPTIONS, TASK_OPTIONS
from windlass.core import events
from windlass.worker.worker import KINDS

DOCS = Path(__file__).resolve().parent.parent.parent / "docs" / "reference"
APP = (DOCS / "app.md").read_text(encoding="utf-8")
WORKER = (DOCS / "worker.md").read_text(encoding="utf-8")


def section(page: str, title: str) -> str:
    return page.split(f"\n## {title}\n")[1].split("\n## ", maxsplit=1)[0]


def named(text: str) -> set[str]:
    """The words that stand in code marks, each by itself."""
    return {word for code in re.findall(r"`([^`]+)`", text) for word in re.findall(r"\w+", code)}


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def parameters(function: Any) -> set[str]:
    return set(inspect.signature(function).parameters) - {"self"}


@pytest.mark.parametrize(
    ("kind", "page", "title"),
    [
        (App, APP, "App"),
        (Task, APP, "Task"),
        (JobContext, APP, "JobContext"),
        (Secret, APP, "Secret"),
        (Handle, APP, "Handle"),
        (Handles, APP, "Handle"),
        (Worker, WORKER, "Worker"),
        (Middleware, WORKER, "Middleware"),
    ],
)
def test_every_public_member_is_on_its_page(kind: type, page: str, title: str) -> None:
    of_a_sequence = {"count", "index"}
    assert public(kind) - of_a_sequence <= named(section(page, title))


@pytest.mark.parametrize(
    ("words", "page", "title"),
    [
        (set(TASK_OPTIONS), APP, "Task options"),
        (set(SEND_OPTIONS), APP, "Send options"),
        (parameters(Retry.__init__) - {"unknown"}, APP, "Retry"),
        (parameters(App.__init__), APP, "App"),
        (parameters(Worker.__init__) - {"unknown"}, WORKER, "Worker"),
        (set(KINDS), WORKER, "Pools"),
        (set(HOOKS), WORKER, "Middleware"),
    ],
)
def test_every_option_is_on_its_page(words: set[str], page: str, title: str) -> None:
    assert words <= named(section(page, title))


def test_every_ending_is_on_the_page() -> None:
    roots = (endings.Ending, endings.Interrupted)
    kinds = {one for one in vars(endings).values() if isinstance(one, type) and issubclass(one, roots)} - set(roots)
    assert {kind.__name__ for kind in kinds} <= named(section(APP, "Endings"))


def test_every_event_that_a_worker_or_a_sender_publishes_is_on_the_page() -> None:
    source = "".join(
        path.read_text(encoding="utf-8")
        for room in ("app", "worker")
        for path in (DOCS.parent.parent / "src" / "windlass" / room).glob("*.py")
    )
    kinds = [name for name, one in vars(events).items() if isinstance(one, type) and issubclass(one, events.Event)]
    published = {name for name in kinds if re.search(rf"wanted\({name}\)", source)}
    assert published
    assert published <= named(section(WORKER, "Events"))
