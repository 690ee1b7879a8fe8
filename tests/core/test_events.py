"""The bus: watching costs nothing when nobody watches, and can break nothing."""

from __future__ import annotations

import logging
import threading

import pytest

from windlass.core.events import Bus, ClockBehind, Event, Mailbox, Started, Swept


def started(attempt: int = 1) -> Started:
    return Started(at_us=1, job=b"j" * 16, task="mail", worker=b"w" * 16, fence=5, attempt=attempt)


def test_without_subscribers_no_event_is_wanted() -> None:
    bus = Bus()
    assert not bus.wanted(Started)
    bus.publish(started())


def test_an_event_is_wanted_exactly_while_somebody_subscribes_to_its_type() -> None:
    bus, seen = Bus(), list[Event]()
    bus.subscribe(Started, seen.append)
    assert bus.wanted(Started)
    assert not bus.wanted(Swept)
    bus.publish(started())
    bus.publish(Swept(at_us=2))
    bus.unsubscribe(Started, seen.append)
    bus.publish(started())
    assert seen == [started()]
    assert not bus.wanted(Started)


def test_subscribing_to_event_means_all_of_them() -> None:
    bus, seen = Bus(), list[Event]()
    bus.subscribe(Event, seen.append)
    assert bus.wanted(ClockBehind)
    bus.publish(started())
    bus.publish(ClockBehind(at_us=3, behind_us=9))
    assert [type(event) for event in seen] == [Started, ClockBehind]


def test_subscribing_twice_delivers_once() -> None:
    bus, seen = Bus(), list[Event]()
    bus.subscribe(Started, seen.append)
    bus.subscribe(Started, seen.append)
    bus.publish(started())
    assert len(seen) == 1


def test_unsubscribing_a_stranger_changes_nothing() -> None:
    bus, seen = Bus(), list[Event]()
    bus.subscribe(Started, seen.append)
    bus.unsubscribe(Started, print)
    bus.unsubscribe(Swept, print)
    assert bus.wanted(Started)
    assert not bus.wanted(Swept)


def test_a_failing_subscriber_is_logged_once_and_the_others_get_everything(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bus, seen = Bus(), list[Event]()

    def broken(event: Started) -> None:
        raise RuntimeError(f"no {event.attempt}")

    bus.subscribe(Started, broken)
    bus.subscribe(Started, seen.append)
    with caplog.at_level(logging.ERROR, "windlass.events"):
        for attempt in range(5):
            bus.publish(started(attempt))
    assert len(seen) == 5
    assert len(caplog.records) == 1
    assert "broken" in caplog.records[0].getMessage()


def test_a_subscriber_without_a_hash_may_fail_too(caplog: pytest.LogCaptureFixture) -> None:
    class Odd:
        __hash__ = None  # pyright: ignore[reportAssignmentType]

        def __eq__(self, other: object) -> bool:
            return self is other

        def __call__(self, event: Event) -> None:
            raise RuntimeError

    bus = Bus()
    bus.subscribe(Started, Odd())
    bus.publish(started())
    bus.publish(started())
    assert len(caplog.records) == 1


def test_a_subscriber_may_leave_while_it_is_being_called() -> None:
    bus, seen = Bus(), list[Event]()

    def once(event: Event) -> None:
        bus.unsubscribe(Started, once)
        seen.append(event)

    bus.subscribe(Started, once)
    bus.publish(started())
    bus.publish(started())
    assert len(seen) == 1


def test_threads_that_subscribe_at_once_all_get_in() -> None:
    bus = Bus()
    boxes = [Mailbox() for _ in range(50)]
    threads = [threading.Thread(target=bus.subscribe, args=(Started, box)) for box in boxes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bus.publish(started())
    assert [len(box.take()) for box in boxes] == [1] * 50


def test_a_full_mailbox_drops_the_oldest_and_counts_them() -> None:
    box = Mailbox(size=3)
    for attempt in range(5):
        box(started(attempt))
    assert box.dropped == 2
    assert box.take(2) == [started(2), started(3)]
    assert box.take() == [started(4)]
    assert box.take() == []


def test_an_event_cannot_be_changed_by_a_subscriber() -> None:
    with pytest.raises(AttributeError):
        started().attempt = 9  # pyright: ignore[reportAttributeAccessIssue]
