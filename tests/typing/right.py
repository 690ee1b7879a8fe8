"""Right uses, with the types that checkers must know. Never run: pyright and mypy read it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from windlass import (
    App,
    AsyncTask,
    Handle,
    Handles,
    JobContext,
    Middleware,
    Request,
    Retry,
    Secret,
    State,
    Task,
    Worker,
    as_completed,
    current_job,
    gather,
    injected,
)
from windlass.engines.protocol import Amendment, Change

app = App("memory://", routes={"mail.*": "mail"}, lease="30s")


@dataclass
class Page:
    """What a crawl finds."""

    url: str
    words: int


class Pool:
    """A resource."""


class FakePool:
    """What a test puts in its place."""

    calls: int = 0


@app.resource
def pool() -> Iterator[Pool]:
    """A resource that is closed at the end."""
    yield Pool()


@app.resource
async def page() -> AsyncIterator[Page]:
    """An async one."""
    yield Page("u", 1)


@app.on_start
async def start() -> None:
    """A hook that may be async."""


@app.on_stop
def stop() -> int:
    """A hook that may return something."""
    return 1


@app.task
def plain(order_id: int, to: str = "x") -> str:
    """Decorated without options."""
    return f"{order_id} {to}"


@app.task(
    queue="mail",
    retry=Retry(5),
    timeout="30s",
    grace=5,
    memory="512MB",
    needs={"browser": 1},
    on_cut="stop",
    priority=5,
    tags=["mail"],
    keep_result=timedelta(days=1),
)
def with_options(order_id: int, *, to: str) -> Page:
    """Decorated with options."""
    return Page(to, order_id)


@app.task
async def crawl(url: str) -> Page:
    """A coroutine function."""
    return Page(url, 1)


@app.task(retry=3, keep_result=False)
async def crawl_with_options(url: str, depth: int = 1) -> list[Page]:
    """A coroutine function with options."""
    return [Page(url, depth)]


@app.task
def charge(order_id: int, pool: Pool = injected) -> None:
    """What is injected need not be passed."""


class Tenant(Middleware):
    """Hooks have the types of their base."""

    options = ("tenant",)

    def before_send(self, request: Request) -> Request:
        """Gives another request."""
        return request

    def after_run(self, job: JobContext, error: BaseException | None) -> None:
        """Sees the end."""
        assert_type(job.seconds_left, float | None)


def sync_uses() -> None:
    """From threads."""
    assert_type(plain(1, "a"), str)
    assert_type(plain.delay(1), Handle[str])
    assert_type(plain.delay(1, to="a").get(timeout=5), str)
    assert_type(with_options.delay(1, to="a").get(), Page)
    assert_type(crawl.delay("u").get(), Page)
    assert_type(crawl_with_options.delay("u", depth=2).get(), list[Page])
    assert_type(charge.delay(1), Handle[None])
    assert_type(plain.using(delay=60, priority=9, expires="1h").delay(1, to="a"), Handle[str])
    assert_type(plain.using(at=datetime.now(UTC), key="k").delay(1), Handle[str])
    many = plain.delay_many([(1, "a"), {"order_id": 2, "to": "b"}])
    assert_type(many, Handles[str])
    assert_type(many[0], Handle[str])
    assert_type(many[1:], Handles[str])
    assert_type(many.get(timeout=5), list[str])
    assert_type(many.progress(), Handles[str])
    assert_type(gather(many), list[str])
    for handle in as_completed(many, timeout=5):
        assert_type(handle, Handle[str])
    assert_type(plain.delay(1).state, State)
    assert_type(plain.delay(1).cancel("why"), bool)
    assert_type(app.send("elsewhere", 1, two=2), Handle[Any])
    assert_type(app.result("id").get(), Any)
    assert_type(current_job(), JobContext)
    with Worker(app, slots=4, pool="threads", queues=["mail"], drain="30s") as worker:
        assert_type(worker.id, str | None)
    with app.override(Pool, FakePool()) as fake, app.override(Page, page):
        assert_type(fake.calls, int)


async def async_uses() -> None:
    """From asyncio."""
    assert_type(await crawl("u"), Page)
    assert_type(await plain.adelay(1, to="a"), Handle[str])
    assert_type(await (await plain.adelay(1)), str)
    assert_type(await crawl.delay("u"), Page)
    assert_type(await (await crawl.adelay("u")), Page)
    many = await crawl_with_options.adelay_many([("u",), ("v",)])
    assert_type(await many, list[list[Page]])
    async for handle in many.as_completed():
        assert_type(handle, Handle[list[Page]])


def passed_on(task: Task[[int], str], coroutine: AsyncTask[[str], Page], handle: Handle[object]) -> None:
    """Tasks and handles are values with types."""
    assert_type(task.delay(1), Handle[str])
    assert_type(coroutine.delay("u"), Handle[Page])
    passed_on(task, coroutine, plain.delay(1))
    passed_on(task, crawl, task.delay(1))


@app.task
def log_in(user: str, password: Secret[str]) -> Secret[bytes]:
    assert_type(password.reveal(), str)
    return Secret(password.reveal().encode())


assert_type(log_in.delay("ann", Secret("x")), Handle[Secret[bytes]])
assert_type(Amendment(change=Change.CANCEL).change, Change)
