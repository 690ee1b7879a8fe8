"""Batching: what a loop sends in one tick travels as one batch, and each sender gets its own answer."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.app.conftest import Store
from windlass import App, Worker
from windlass.app.batching import Batcher
from windlass.core.errors import StoreClosed, StoreUnavailable, TooLarge, UnknownParent
from windlass.core.ids import new_id
from windlass.core.job import Edge, Job, Request
from windlass.engines.protocol import Query, Receipt
from windlass.testing.faults import Fault


def job(**options: Any) -> Job:
    return Job(request=Request(id=new_id(), task="t", **options))


def count(app: App) -> int:
    """All jobs there are; a busy machine may need several looks."""
    counted, query = 0, Query(count=True)
    while True:
        page = app.engine.search(query)
        counted += page.count
        if page.cursor is None:
            return counted
        query = Query(count=True, cursor=page.cursor)


def same(number: int) -> int:
    return number


def batch_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("windlass-batch")]


class Slow:
    """An insert that stays on its way until it is let go."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.began = threading.Event()
        self.go = threading.Event()

    def __call__(self, jobs: Any) -> list[Receipt]:
        self.batches.append(len(jobs))
        self.began.set()
        assert self.go.wait(10)
        return [Receipt(id=each.id) for each in jobs]


def test_what_is_sent_in_one_tick_is_one_insert(store: Store) -> None:
    async def main() -> list[Any]:
        return await asyncio.gather(*(store.double.adelay(number) for number in range(50)))

    handles = asyncio.run(main())
    assert store.engine.inserted == [50]
    assert len({handle.id for handle in handles}) == 50
    assert count(store.app) == 50


def test_each_sender_gets_the_receipts_of_its_own_jobs_in_order(store: Store) -> None:
    async def main() -> tuple[Any, ...]:
        return await asyncio.gather(
            store.double.adelay_many([(1,), (2,), (3,)]),
            store.double.adelay(4),
            store.double.adelay_many([]),
            store.double.adelay_many([(5,), (6,)]),
        )

    three, one, none, two = asyncio.run(main())
    assert store.engine.inserted == [6]
    with Worker(store.app, slots=1):
        assert (three.get(10), one.get(10), none.get(10), two.get(10)) == ([2, 4, 6], 8, [], [10, 12])


def test_while_a_batch_is_on_its_way_the_next_one_gathers() -> None:
    insert = Slow()

    async def main() -> None:
        batcher = Batcher(insert)
        first = asyncio.create_task(batcher.send([job()]))
        while not insert.began.is_set():
            await asyncio.sleep(0)
        more = [asyncio.create_task(batcher.send([job()])) for _ in range(7)]
        await asyncio.sleep(0)
        insert.go.set()
        await asyncio.wait_for(asyncio.gather(first, *more), 10)
        batcher.close()

    asyncio.run(main())
    assert insert.batches == [1, 7]


def test_the_loop_goes_on_while_a_batch_is_on_its_way() -> None:
    insert = Slow()

    async def main() -> int:
        batcher = Batcher(insert)
        sending = asyncio.create_task(batcher.send([job()]))
        turns = 0
        while not insert.began.is_set() or turns < 100:
            await asyncio.sleep(0)
            turns += 1
        assert not sending.done()
        insert.go.set()
        await sending
        batcher.close()
        return turns

    assert asyncio.run(main()) >= 100


def test_a_batch_in_which_one_job_is_refused_lets_the_others_through(app: App) -> None:
    async def main() -> list[Any]:
        sends = [
            app.insert_soon([job()]),
            app.insert_soon([job(payload=b"x" * 1_000_000)]),
            app.insert_soon([job(), job()]),
            app.insert_soon([job(), job(parents=(Edge(parent=new_id()),))]),
        ]
        return await asyncio.gather(*sends, return_exceptions=True)

    one, large, two, orphan = asyncio.run(main())
    assert (len(one), len(two)) == (1, 2)
    assert isinstance(large, TooLarge)
    assert isinstance(orphan, UnknownParent)
    assert count(app) == 3, "the sender of an orphan is refused with all its jobs"


def test_a_store_that_cannot_be_reached_is_told_to_each_and_asked_once(store: Store) -> None:
    store.engine.plan("insert", [Fault.REFUSE])

    async def main() -> list[Any]:
        return await asyncio.gather(*(store.double.adelay(number) for number in range(5)), return_exceptions=True)

    assert [type(answer) for answer in asyncio.run(main())] == [StoreUnavailable] * 5
    assert store.engine.inserted == [5]
    assert count(store.app) == 0


def test_a_store_that_is_lost_after_a_refusal_leaves_those_that_arrived_their_receipts(store: Store) -> None:
    store.engine.plan("insert", [None, None, Fault.REFUSE, None])

    async def main() -> list[Any]:
        sends = [store.app.insert_soon([each]) for each in (job(), job(), job(payload=b"x" * 1_000_000))]
        return await asyncio.gather(*sends, return_exceptions=True)

    first, second, large = asyncio.run(main())
    assert len(first) == 1
    assert isinstance(second, StoreUnavailable)
    assert isinstance(large, TooLarge)
    assert count(store.app) == 1


def test_a_sender_that_is_cancelled_meanwhile_harms_no_other() -> None:
    insert = Slow()

    async def main() -> list[Receipt]:
        batcher = Batcher(insert)
        gone, stays = (asyncio.create_task(batcher.send([job()])) for _ in range(2))
        while not insert.began.is_set():
            await asyncio.sleep(0)
        gone.cancel()
        insert.go.set()
        receipts = await stays
        assert gone.cancelled()
        batcher.close()
        return receipts

    assert len(asyncio.run(main())) == 1
    assert insert.batches == [2], "what was on its way is sent all the same"


def test_two_loops_send_at_once(app: App) -> None:
    task = app.task(name="t")(same)
    start = threading.Barrier(2)

    async def main(first: int) -> list[str]:
        start.wait(10)
        rounds = [await asyncio.gather(*(task.adelay(number) for number in range(first, first + 20))) for _ in range(5)]
        return [handle.id for handles in rounds for handle in handles]

    def loop(first: int) -> list[str]:
        return asyncio.run(main(first))

    with ThreadPoolExecutor(2) as threads:
        ids = [job_id for found in threads.map(loop, (0, 100)) for job_id in found]
    assert len(set(ids)) == 200
    assert count(app) == 200


def test_one_loop_after_another_leaves_no_thread_behind(store: Store) -> None:
    for number in range(5):
        asyncio.run(store.double.adelay(number))
    gc.collect()
    for thread in batch_threads():
        thread.join(10)
    assert batch_threads() == []
    assert count(store.app) == 5


def test_closing_waits_for_what_is_on_its_way_and_sends_away_what_is_not() -> None:
    insert = Slow()

    async def main() -> tuple[Any, ...]:
        batcher = Batcher(insert)
        first = asyncio.create_task(batcher.send([job()]))
        while not insert.began.is_set():
            await asyncio.sleep(0)
        late = asyncio.create_task(batcher.send([job()]))
        await asyncio.sleep(0)
        threading.Timer(0, insert.go.set).start()
        batcher.close()
        return await asyncio.gather(first, late, batcher.send([job()]), return_exceptions=True)

    first, late, later = asyncio.run(main())
    assert len(first) == 1
    assert isinstance(late, StoreClosed)
    assert isinstance(later, StoreClosed)
    assert insert.batches == [1]


def test_a_closed_app_sends_again_from_the_same_loop(app: App) -> None:
    task = app.task(name="t")(lambda: None)

    async def main() -> None:
        await task.adelay()
        await asyncio.to_thread(app.close)
        assert (await task.adelay()).state == "ready"

    asyncio.run(main())


def test_the_same_id_twice_in_one_tick_is_one_job(app: App) -> None:
    task = app.task(name="t")(lambda: None)

    async def main() -> list[Any]:
        return await asyncio.gather(*(task.using(id=job_id).adelay() for job_id in [new_id()] * 2))

    first, again = asyncio.run(main())
    assert (first.duplicate, again.duplicate, again.id) == (False, True, first.id)
    assert count(app) == 1


@pytest.mark.parametrize("size", [101, 1_000])
def test_a_tick_may_hold_more_than_a_batch_of_the_store(app: App, size: int) -> None:
    task = app.task(name="t")(same)

    async def main() -> list[Any]:
        return await asyncio.gather(*(task.adelay(number) for number in range(size)))

    assert len({handle.id for handle in asyncio.run(main())}) == size
    assert count(app) == size
