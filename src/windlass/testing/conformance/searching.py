"""search: every filter, pages complete and without repeats, and a bound on what one call looks at."""

from __future__ import annotations

import msgspec
import pytest

from windlass.core.errors import BadValue
from windlass.core.ids import JobId, new_id
from windlass.core.job import Edge, Failure, Job, Outcome, Record, State
from windlass.engines.protocol import SEARCH_RECORDS, Change, Page, Query
from windlass.testing.conformance.harness import SECOND_US, Harness

HALF = 50_000


def _ids(harness: Harness, query: Query) -> list[JobId]:
    return [job.id for job in harness.find(query)]


class Searching:
    """Looking at many jobs."""

    # ── filters ─────────────────────────────────────────────────────────────────────────────────────────

    @pytest.mark.parametrize("state", sorted(State))
    def test_jobs_are_found_by_state(self, harness: Harness, state: State) -> None:
        by_state = {each: harness.job_in(each, tags=("mine",)) for each in State}
        assert _ids(harness, Query(state=state, tag="mine")) == [by_state[state]]

    def test_jobs_are_found_by_queue_and_by_task(self, harness: Harness) -> None:
        one = harness.send("a", queue="x")
        two = harness.send("b", queue="x")
        three = harness.send("a", queue="y")
        assert sorted(_ids(harness, Query(queue="x"))) == sorted([one, two])
        assert sorted(_ids(harness, Query(task="a"))) == sorted([one, three])
        assert _ids(harness, Query(state=State.READY, queue="x", task="a")) == [one]
        assert _ids(harness, Query(state=State.DEAD, queue="x")) == []

    def test_jobs_are_found_by_the_worker_that_runs_them(self, harness: Harness) -> None:
        one, two = harness.worker(), harness.worker()
        harness.send_many(3)
        mine, theirs = harness.claim(one, 2), harness.claim(two)
        assert sorted(_ids(harness, Query(worker=one))) == sorted(claim.id for claim in mine)
        assert _ids(harness, Query(worker=two)) == [theirs[0].id]
        harness.give_back(mine[0])
        harness.finish(mine[1])
        assert _ids(harness, Query(worker=one)) == []

    def test_jobs_are_found_by_lane_flow_and_tag(self, harness: Harness) -> None:
        flow = new_id()
        lane = [harness.send(lane="l") for _ in range(2)]
        node = harness.send(flow=flow)
        tagged = harness.send(tags=("a", "b"))
        assert sorted(_ids(harness, Query(lane="l"))) == sorted(lane)
        assert _ids(harness, Query(flow=flow)) == [node]
        assert _ids(harness, Query(tag="b")) == [tagged]
        assert _ids(harness, Query(tag="c")) == []

    def test_jobs_are_found_by_the_fingerprint_of_their_error(self, harness: Harness) -> None:
        errors = [Failure(type="E", fingerprint=fingerprint) for fingerprint in ("f1", "f2")]
        dead, waiting = harness.running(), harness.running()
        harness.finish(dead, Outcome.FAILED, failure=errors[0])
        harness.finish(waiting, Outcome.FAILED, delay_s=60, failure=errors[1])
        assert _ids(harness, Query(fingerprint="f1")) == [dead.id]
        assert _ids(harness, Query(fingerprint="f2")) == [waiting.id]

    @pytest.mark.parametrize("ended", [False, True])
    def test_jobs_are_found_by_their_time(self, harness: Harness, ended: bool) -> None:
        state = State.SUCCEEDED if ended else State.READY
        ids: list[JobId] = []
        start_us = harness.now_us
        for _ in range(4):
            ids.append(harness.job_in(state))
            harness.pass_time(10)
        since_us, until_us = start_us + 10 * SECOND_US, start_us + 30 * SECOND_US
        found = _ids(harness, Query(state=state, since_us=since_us, until_us=until_us))
        assert sorted(found) == sorted(ids[1:3])

    def test_what_is_found_comes_with_its_record_and_without_its_parts(self, harness: Harness) -> None:
        job_id = harness.send(payload=b"secret")
        (job,) = harness.find(Query())
        assert job.record == harness.record(job_id)
        assert job.request.payload == b""

    # ── pages ───────────────────────────────────────────────────────────────────────────────────────────

    @pytest.mark.parametrize("limit", [1, 7, 30, 100])
    @pytest.mark.parametrize("state", [None, State.READY, State.SUCCEEDED])
    def test_pages_are_complete_and_without_repeats(self, harness: Harness, limit: int, state: State | None) -> None:
        ids = harness.send_many(30)
        if state is State.SUCCEEDED:
            harness.drain(harness.worker())
        pages = list(harness.pages(Query(state=state, limit=limit)))
        found = [job.id for page in pages for job in page.jobs]
        assert sorted(found) == sorted(ids)
        assert all(len(page.jobs) <= limit for page in pages)

    def test_ended_jobs_come_newest_end_first(self, harness: Harness) -> None:
        worker = harness.worker()
        first, second, third = harness.send_many(3)
        claims = {claim.id: claim for claim in harness.claim(worker)}
        for job_id in (second, third, first):
            harness.finish(claims[job_id])
            harness.pass_time(1)
        assert _ids(harness, Query(state=State.SUCCEEDED, limit=2)) == [first, third, second]

    def test_pages_stay_complete_while_jobs_end_and_go(self, harness: Harness) -> None:
        worker = harness.worker()
        old = harness.send_many(30)
        harness.drain(worker)
        query = Query(state=State.SUCCEEDED, limit=10)
        page = harness.engine.search(query)
        found = [job.id for job in page.jobs]
        harness.pass_time(1)
        harness.send_many(5)
        harness.drain(worker)
        harness.amend(Change.DELETE, *found[:5])
        assert page.cursor is not None
        found += _ids(harness, msgspec.structs.replace(query, cursor=page.cursor))
        assert sorted(found) == sorted(old)

    def test_pages_stay_complete_while_jobs_come_and_go(self, harness: Harness) -> None:
        old = harness.send_many(30)
        page = harness.engine.search(Query(limit=10))
        found = [job.id for job in page.jobs]
        harness.amend(Change.DELETE, *found[:5])
        new = harness.send_many(5)
        assert page.cursor is not None
        found += _ids(harness, Query(limit=10, cursor=page.cursor))
        assert sorted(set(found) - set(new)) == sorted(old)
        assert len(found) == len(set(found))

    def test_a_count_is_the_number_of_what_would_be_found(self, harness: Harness) -> None:
        harness.send_many(40, "a")
        harness.send_many(2, "b")
        assert harness.count(Query(task="a", limit=5)) == 40
        assert harness.count(Query(task="b")) == 2
        assert harness.count(Query(task="c")) == 0
        assert all(page.jobs == () for page in harness.pages(Query(task="a", count=True)))

    def test_an_empty_store_gives_one_empty_page(self, harness: Harness) -> None:
        assert harness.engine.search(Query()) == Page()

    @pytest.mark.parametrize(
        "cursor",
        ["", "x", "-1", "1; drop table jobs", "٣", "9" * 5_000, "9" * 20 + ".1", "1." + "9" * 20],
        ids=range(8),
    )
    @pytest.mark.parametrize("state", [None, State.DEAD])
    def test_a_bad_cursor_is_refused(self, harness: Harness, cursor: str, state: State | None) -> None:
        harness.send()
        with pytest.raises(BadValue):
            harness.engine.search(Query(state=state, cursor=cursor))

    # ── the bound ───────────────────────────────────────────────────────────────────────────────────────

    def test_a_search_through_a_hundred_thousand_jobs_is_bounded_and_complete(self, harness: Harness) -> None:
        rare = [harness.send("rare", queue="q", tags=("rare",))]
        ended = Record(state=State.SUCCEEDED, queue="q", ended_us=harness.now_us)
        rare_ended = Job(request=harness.request("rare", queue="q", tags=("rare",)), record=ended)
        harness.bulk([rare_ended])
        harness.send_many(HALF, queue="q")
        later = msgspec.structs.replace(ended, ended_us=harness.now_us + 1)
        harness.bulk(Job(request=harness.request(queue="q"), record=later) for _ in range(HALF))
        rare += [rare_ended.id, harness.send("rare", queue="q", tags=("rare",))]
        assert sorted(_ids(harness, Query(tag="rare"))) == sorted(rare)
        assert _ids(harness, Query(state=State.SUCCEEDED, tag="rare")) == [rare_ended.id]
        assert sorted(_ids(harness, Query(task="rare"))) == sorted(rare)

        pages = list(harness.pages(Query(tag="rare", count=True)))
        assert sum(page.scanned for page in pages) >= 2 * HALF
        assert len(pages) >= 2 * HALF // SEARCH_RECORDS
        assert sum(page.count for page in pages) == 3

        assert harness.count(Query(state=State.READY)) == HALF + 2
        found = _ids(harness, Query(state=State.SUCCEEDED, queue="q", limit=1_000))
        assert len(found) == len(set(found)) == HALF + 1

    def test_a_child_is_found_under_its_own_flow_only(self, harness: Harness) -> None:
        one, two = new_id(), new_id()
        parent = harness.send(flow=one)
        child = harness.send(flow=two, parents=(Edge(parent),))
        assert _ids(harness, Query(flow=two)) == [child]

    @pytest.mark.parametrize("by", ["queue", "task", "fingerprint"])
    def test_a_search_among_the_ended_looks_only_at_the_time_asked_for(self, harness: Harness, by: str) -> None:
        ids: list[JobId] = []
        start_us = harness.now_us
        for _ in range(10):
            claim = harness.running(task="t", queue="q")
            harness.finish(claim, Outcome.FAILED, failure=Failure(type="E", fingerprint="f"))
            ids.append(claim.id)
            harness.pass_time(10)
        query = Query(
            state=State.DEAD,
            since_us=start_us + 30 * SECOND_US,
            until_us=start_us + 60 * SECOND_US,
            limit=2,
            **{by: {"queue": "q", "task": "t", "fingerprint": "f"}[by]},  # pyright: ignore[reportArgumentType]
        )
        first = harness.engine.search(query)
        assert [job.id for job in first.jobs] == [ids[5], ids[4]]
        second = harness.engine.search(msgspec.structs.replace(query, cursor=first.cursor))
        assert [job.id for job in second.jobs] == [ids[3]]
        assert first.scanned + second.scanned == 3
        assert second.cursor is None

    def test_pages_by_fingerprint_have_those_that_wait_and_those_that_ended(self, harness: Harness) -> None:
        ids: set[JobId] = set()
        for number in range(12):
            claim = harness.running()
            delay_s = 60 if number % 2 else None
            harness.finish(claim, Outcome.FAILED, delay_s=delay_s, failure=Failure(type="E", fingerprint="f"))
            ids.add(claim.id)
            harness.pass_time(1)
        found: list[JobId] = []
        query = Query(fingerprint="f", limit=5)
        while True:
            page = harness.engine.search(query)
            found += [job.id for job in page.jobs]
            if page.cursor is None:
                break
            query = msgspec.structs.replace(query, cursor=page.cursor)
        assert len(found) == 12
        assert set(found) == ids
        assert len(_ids(harness, Query(fingerprint="f", state=State.SCHEDULED))) == 6
