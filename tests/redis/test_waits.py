"""Waiting for results while the server dies, comes back, or hangs: who has time gets the result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from tests.servers.redis_server import RedisServer
from tests.soak.waiting import HANG_S, wait_for
from windlass import App, Handle, Handles, Task, Worker, as_completed, gather
from windlass.core.errors import NotFinished, StoreUnavailable

NewServer = Callable[..., RedisServer]

SOCKET_TIMEOUT_S = 60
"""So long a call to a server that hangs takes, and raises another error then."""


@contextmanager
def an_app(url: str) -> Generator[tuple[App, Task[[int], int]]]:
    with App(url) as app:

        @app.task(name="double")
        def double(number: int) -> int:
            return 2 * number

        yield app, double


async def awaited(handles: Handles[int]) -> list[int]:
    return await handles


async def as_they_end(handles: Handles[int]) -> list[int]:
    return sorted([await handle async for handle in as_completed(handles, timeout=30)])


WAITS: dict[str, Callable[[Handles[int]], list[int]]] = {
    "get": lambda handles: [handle.get(timeout=30) for handle in handles],
    "gather": lambda handles: gather(handles, timeout=30),
    "as_completed": lambda handles: sorted(handle.get() for handle in as_completed(handles, timeout=30)),
    "await": lambda handles: asyncio.run(awaited(handles)),
    "async for": lambda handles: asyncio.run(as_they_end(handles)),
    "get without a timeout": lambda handles: [handle.get() for handle in handles],
}


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    """What was logged about the loss of the server, and its return."""
    ours = {"windlass.app.waiter", "windlass.engines.redis.link"}
    return [(record.levelno, record.getMessage()) for record in caplog.records if record.name in ours]


def test_every_wait_gets_its_result_from_a_server_that_was_killed_and_started_again(
    new_server: NewServer, caplog: pytest.LogCaptureFixture
) -> None:
    server = new_server(appendonly="always")
    with an_app(server.url()) as (app, double), ThreadPoolExecutor(2 * len(WAITS)) as pool:
        early = double.delay_many([(1,), (2,)])
        waits = {name: pool.submit(wait, early) for name, wait in WAITS.items()}
        wait_for("somebody to sleep in the store", lambda: app.waiter._asleep)  # pyright: ignore[reportPrivateUsage]
        with caplog.at_level(logging.INFO, "windlass"):
            server.kill()
            wait_for("the server to be missed", lambda: told(caplog))
            waits |= {f"{name}, begun in the outage": pool.submit(wait, early) for name, wait in WAITS.items()}
            server.start()
            with Worker(app, slots=1):
                assert {name: wait.result(HANG_S) for name, wait in waits.items()} == {name: [2, 4] for name in waits}
            wait_for("its return to be told", lambda: len(told(caplog)) == 2)
    (lost, lost_said), (back, back_said) = told(caplog)
    assert (lost, back) == (logging.WARNING, logging.INFO)
    assert lost_said.endswith("It is tried again until it is back.")
    assert "is back, " in back_said


def test_a_timeout_while_the_server_is_away_says_so(new_server: NewServer) -> None:
    server = new_server(appendonly="always")
    with an_app(server.url()) as (app, double):
        handle = double.delay(1)
        server.kill()
        with pytest.raises(NotFinished, match=f"No end of the job {handle.id} is known after 1 s") as caught:
            handle.get(timeout=1)
        assert "cannot be reached: the connection was refused" in caught.value.message
        assert isinstance(caught.value.__cause__, StoreUnavailable)
        server.start()
        with Worker(app, slots=1):
            assert handle.get(timeout=HANG_S) == 2


async def in_loop(handle: Handle[int]) -> Any:
    async for each in as_completed([handle], timeout=1):
        return await each


TIMED: dict[str, Callable[[Handle[int]], Any]] = {
    "get": lambda handle: handle.get(timeout=1),
    "as_completed": lambda handle: list(as_completed([handle], timeout=1)),
    "async for": lambda handle: asyncio.run(in_loop(handle)),
}


@pytest.mark.parametrize("is_asleep", [False, True])
def test_a_server_that_hangs_takes_nobody_longer_than_his_timeout(new_server: NewServer, is_asleep: bool) -> None:
    server = new_server()
    with an_app(f"{server.url()}?timeout={SOCKET_TIMEOUT_S}") as (app, double):
        handle = double.delay(1)
        if is_asleep:  # others wait already, so that the listener has to be rung
            app.waiter.watch([double.delay(2).job_id])
            wait_for("the listener to sleep", lambda: app.waiter._asleep)  # pyright: ignore[reportPrivateUsage]
        server.freeze()
        for wait in TIMED.values():
            with pytest.raises(
                NotFinished, match=r"is known after 1 s\. The store has not answered within 2 s\."
            ) as caught:
                wait(handle)
            assert isinstance(caught.value.__cause__, StoreUnavailable)
        assert not handle.wait(timeout=1)
        server.thaw()
        with Worker(app, slots=1):
            assert handle.get(timeout=HANG_S) == 2
