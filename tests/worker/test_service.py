"""What every loop of a worker is: started, ready, woken, stopped, and not brought down by a step that fails."""

from __future__ import annotations

import logging
import threading
from collections import deque

import pytest

from windlass.core.clock import SystemClock
from windlass.core.errors import StoreFull, StoreUnavailable
from windlass.worker.outage import Outage
from windlass.worker.service import FIRST_PAUSE_S, LONGEST_PAUSE_S, Bell, Service

HANG_S = 20


class Steps(Service):
    """A service whose steps do what they are told; it notes how long it was told to sleep."""

    name = "steps"

    def __init__(self, *plan: BaseException | float | None) -> None:
        super().__init__(SystemClock())
        self.plan: deque[BaseException | float | None] = deque(plan)
        self.slept: list[float | None] = []
        self.idle = threading.Event()

    def tick(self, now_us: int) -> float | None:
        if not self.plan:
            return None
        step = self.plan.popleft()
        if isinstance(step, BaseException):
            raise step
        return step

    def rest(self, pause_s: float | None) -> None:
        self.slept.append(pause_s)
        if self.plan:
            return
        self.idle.set()
        super().rest(pause_s)


def run(service: Steps) -> None:
    service.start()
    assert service.idle.wait(HANG_S)
    service.stop(HANG_S)


DOWN = StoreUnavailable("The store is away.", "Wait.")


def test_a_service_is_ready_after_its_first_step_that_worked() -> None:
    service = Steps(DOWN, 0.0)
    assert not service.ready.is_set()
    service.start()
    assert service.ready.wait(HANG_S)
    service.stop()


def test_a_step_that_fails_is_tried_again_a_little_later_each_time() -> None:
    service = Steps(*[DOWN] * 8, 0.5, DOWN)
    run(service)
    doubled = [FIRST_PAUSE_S * 2**n for n in range(3)]
    assert service.slept[:8] == pytest.approx([*doubled, *[LONGEST_PAUSE_S] * 5])
    assert service.slept[8:10] == [0.5, FIRST_PAUSE_S], "after a success it begins anew"


def test_a_step_that_did_not_ask_the_store_does_not_say_that_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    service = Steps(DOWN, 0.0, DOWN, 0.0)
    service.is_back = lambda: not service.plan
    with caplog.at_level(logging.INFO):
        run(service)
    assert [record.getMessage() for record in caplog.records] == [
        "The worker has to wait: The store is away. Wait.",
        "The worker goes on.",
    ]


def test_an_outage_is_logged_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        run(Steps(*[DOWN] * 5, 0.0))
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "The worker has to wait: The store is away. Wait."),
        ("INFO", "The worker goes on."),
    ]


def test_an_outage_of_several_loops_is_logged_once_and_is_over_with_the_last(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage()
    full = StoreFull("The disk is full.", "Free some space.")
    with caplog.at_level(logging.INFO):
        for loop in ("consumer", "settler", "consumer"):
            outage.begins(loop, DOWN)
        outage.begins("settler", full)
        outage.ends("consumer")
        outage.ends("janitor")
        assert [record.levelname for record in caplog.records] == ["WARNING"] * 2, "each kind of trouble once"
        outage.ends("settler")
    assert [record.getMessage() for record in caplog.records][1:] == [
        "The worker has to wait: The disk is full. Free some space.",
        "The worker goes on.",
    ]


def test_an_outage_that_the_engine_has_logged_is_not_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    logged = StoreUnavailable("The store is away.", "Wait.")
    logged.logged = True
    with caplog.at_level(logging.INFO):
        run(Steps(logged, logged, 0.0))
    assert caplog.records == []


@pytest.mark.parametrize("error", [ZeroDivisionError("bug"), SystemExit(1), KeyboardInterrupt()])
def test_no_error_of_a_step_ends_the_loop(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    service = Steps(error, 0.0)
    run(service)
    assert service.ready.is_set()
    assert "The steps failed; it tries again." in caplog.text
    assert type(error).__name__ in caplog.text


def test_no_error_of_its_sleep_ends_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    service, rests = Steps(0.1, 0.1), Steps.rest

    def rest(pause_s: float | None) -> None:
        rests(service, pause_s)
        if service.plan:
            raise ValueError("what somebody has published")

    service.rest = rest
    run(service)
    assert not service.plan
    assert "The steps failed; it tries again." in caplog.text


def test_stop_returns_when_the_last_step_is_over_and_no_thread_is_left() -> None:
    service = Steps(0.1)
    run(service)
    assert "windlass-steps" not in {thread.name for thread in threading.enumerate()}
    service.stop()


def test_a_wake_up_during_a_step_is_not_lost() -> None:
    service = Steps()
    ticks = 0

    def tick(now_us: int) -> float | None:
        nonlocal ticks
        ticks += 1
        if ticks == 1:
            service.wake()  # somebody rings while the step runs, after it has looked
        else:
            second.set()
        return None

    second = threading.Event()
    service.tick = tick
    service.start()
    assert second.wait(HANG_S)
    service.stop()


def test_a_bell_rings_until_it_is_heard_once() -> None:
    bell = Bell()
    bell.ring()
    bell.ring()
    bell.wait(HANG_S)
    bell.ring()
    bell.clear()
    bell.clear()
    began = SystemClock().monotonic_us()
    bell.wait(0.02)
    assert SystemClock().monotonic_us() - began >= 15_000, "it was silent"
