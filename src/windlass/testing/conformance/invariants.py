"""What must be true of every store at every moment, whatever was done to it (DESIGN §10).

Pure functions over a `Picture` (what the store shows now) and a `History` (what was done to it and what was
seen). They know no engine and no model: a mistake that two engines share is still found here. `check` calls
those that hold after every step, `check_swept` those that hold once housekeeping has nothing left to do.

| function | DESIGN §10 |
| --- | --- |
| nothing_is_lost | 1: an acknowledged insert is there, in one state, until it was deleted or its time was up |
| nothing_is_made_up | 2: what is there was inserted |
| one_fence | 3, 4: fences only grow, and no two claims of a job carry the same one |
| refused_writes_change_nothing | 5: a stale settle leaves the job as it was |
| lanes_keep_their_bound, lanes_keep_their_order | 8, 9 |
| one_blocker_per_key | unique keys of §7 |
| counters_are_true | tally is what one would count |
| states_make_sense | what a record says fits its state |
| asks_are_remembered | a cancel that was asked for with a reason ends with one, a success with none |
| nobody_waits_for_nothing | a held job has a reason that is true |
| runners_are_alive | 10: what runs has a card |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from windlass.core.ids import JobId, WorkerId, show_id
from windlass.core.job import ENDED, WAITING, Hold, Job, Record, Request, State
from windlass.core.lifecycle import CANCELLED
from windlass.engines.protocol import Claim, Engine, Query, TallyQuery

Counts = Mapping[tuple[str, str, State], int]


class Broken(AssertionError):
    """An invariant does not hold; the message names it and the job."""


@dataclass(frozen=True, slots=True)
class Picture:
    """What a store shows at one moment. `listed` is what search found, `jobs` what fetch gave."""

    now_us: int
    jobs: Mapping[JobId, Job]
    listed: frozenset[JobId]
    counts: Counts
    cards: frozenset[WorkerId]

    def records(self) -> Iterator[tuple[JobId, Request, Record]]:
        """The jobs with their records, one by one."""
        for job_id, job in self.jobs.items():
            if job.record is None:
                raise Broken(f"{show_id(job_id)} was fetched without a record")
            yield job_id, job.request, job.record


@dataclass(slots=True)
class History:
    """What was done to the store, as far as it was acknowledged, and what pictures showed since."""

    sent: dict[JobId, Request] = field(default_factory=dict[JobId, Request])
    """Acknowledged as new, in this order, and not known to be gone."""
    maybe: dict[JobId, Request] = field(default_factory=dict[JobId, Request])
    """Follow-ups of accepted settlements: there, unless their id or key was taken."""
    deleted: set[JobId] = field(default_factory=set[JobId])
    imported: set[JobId] = field(default_factory=set[JobId])
    retried: set[JobId] = field(default_factory=set[JobId])
    """Retried by hand: they joined their lane a second time, at its end."""
    lane_limits: dict[str, int] = field(default_factory=dict[str, int])
    """The largest limit that anybody ever stated for a lane."""
    started: set[JobId] = field(default_factory=set[JobId])
    """Flows that were started."""
    instead: dict[JobId, JobId] = field(default_factory=dict[JobId, JobId])
    """Jobs that were refused as duplicates, and the one that holds their key: their dependents wait for it."""
    claimed: dict[JobId, int] = field(default_factory=dict[JobId, int])
    """The last fence a claim handed out for the job."""
    last: dict[JobId, Record] = field(default_factory=dict[JobId, Record])
    """The record in the last picture."""

    def send(self, request: Request, *, whole: bool = False) -> None:
        """The insert of this job was acknowledged as new."""
        self.sent[request.id] = request
        self.deleted.discard(request.id)
        if whole:
            self.imported.add(request.id)
        self._lane(request)

    def follow(self, request: Request) -> None:
        """A settlement that brought this follow-up was accepted."""
        if request.id not in self.sent:
            self.maybe[request.id] = request
            self.deleted.discard(request.id)
            self._lane(request)

    def _lane(self, request: Request) -> None:
        if request.lane is not None:
            limit = max(request.lane_limit or 1, self.lane_limits.get(request.lane, 1))
            self.lane_limits[request.lane] = limit

    def claim(self, claim: Claim) -> None:
        """A new claim was handed out; its fence must be greater than the one before."""
        if claim.fence <= self.claimed.get(claim.id, 0):
            raise Broken(
                f"one_fence: {show_id(claim.id)} was claimed with fence {claim.fence} after {self.claimed[claim.id]}"
            )
        self.claimed[claim.id] = claim.fence

    def look(self, picture: Picture) -> None:
        """Takes in a picture that was found to be right."""
        for job_id, request in list(self.maybe.items()):
            if job_id in picture.jobs:
                del self.maybe[job_id]
                self.sent.setdefault(job_id, request)
        for job_id in [job_id for job_id in self.sent if job_id not in picture.jobs]:
            # Gone by delete or retention. A late repeat of its insert would begin a new life.
            for shelf in (self.sent, self.claimed, self.last):
                shelf.pop(job_id, None)
            self.retried.discard(job_id)
            self.imported.discard(job_id)
        self.last = {job_id: record for job_id, _, record in picture.records()}
        alive = {request.flow for _, request, _ in picture.records()}
        self.started = {flow for flow in self.started if flow in alive}


def take(engine: Engine, history: History, now_us: int) -> Picture:
    """A picture of all that the protocol shows of a store."""
    listed: list[JobId] = []
    cursor: str | None = None
    while True:
        page = engine.search(Query(limit=1_000, cursor=cursor))
        listed += [job.id for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            break
    if len(set(listed)) != len(listed):
        raise Broken("nothing_is_made_up: search listed a job twice")
    ids = list(dict.fromkeys([*history.sent, *history.maybe, *listed]))
    found = engine.fetch(ids)
    tally = engine.tally(TallyQuery())
    counts: Counter[tuple[str, str, State]] = Counter()
    for count in tally.counts:
        counts[count.queue, count.task, count.state] += count.n
    return Picture(
        now_us=now_us,
        jobs={job_id: job for job_id, job in zip(ids, found, strict=True) if job is not None},
        listed=frozenset(listed),
        counts={key: n for key, n in counts.items() if n},
        cards=frozenset(card.worker for card in tally.cards),
    )


def check(picture: Picture, history: History) -> None:
    """Everything that holds after every step; `history` has not yet seen this picture."""
    nothing_is_lost(picture, history)
    nothing_is_made_up(picture, history)
    one_fence(picture, history)
    lanes_keep_their_bound(picture, history)
    lanes_keep_their_order(picture, history)
    one_blocker_per_key(picture)
    counters_are_true(picture)
    states_make_sense(picture)
    asks_are_remembered(picture, history)


def check_swept(picture: Picture, history: History) -> None:
    """Everything that holds once a sweep has said that there is no more to do."""
    nobody_waits_for_nothing(picture, history)
    runners_are_alive(picture)


def nothing_is_lost(picture: Picture, history: History) -> None:
    """An acknowledged insert is there until it was deleted, or had ended and its time was up."""
    for job_id in history.sent:
        if job_id in picture.jobs or job_id in history.deleted:
            continue
        seen = history.last.get(job_id)
        if seen is None or seen.state not in ENDED:
            state = "never seen" if seen is None else f"last seen {seen.state}"
            raise Broken(f"nothing_is_lost: {show_id(job_id)} is gone, {state}")


def nothing_is_made_up(picture: Picture, history: History) -> None:
    """Search lists exactly the jobs that fetch gives, and all of them were sent by somebody, as they are."""
    for job_id in picture.listed | picture.jobs.keys():
        known = history.sent.get(job_id) or history.maybe.get(job_id)
        if known is None or job_id in history.deleted:
            raise Broken(f"nothing_is_made_up: nobody inserted {show_id(job_id)}")
        if (job_id in picture.listed) is not (job_id in picture.jobs):
            raise Broken(f"nothing_is_made_up: search and fetch disagree about {show_id(job_id)}")
        if picture.jobs[job_id].request != known:
            raise Broken(f"nothing_is_made_up: the request of {show_id(job_id)} has changed")


def one_fence(picture: Picture, history: History) -> None:
    """A job's fence only grows, and while it runs it is the one that its last claim was given."""
    for job_id, _, record in picture.records():
        before = history.last.get(job_id)
        if before is not None and (record.fence < before.fence or record.settled_fence < before.settled_fence):
            raise Broken(f"one_fence: a fence of {show_id(job_id)} went back")
        if record.settled_fence > record.fence and job_id not in history.imported:
            raise Broken(f"one_fence: {show_id(job_id)} was settled with a fence nobody was given")
        if record.state is State.RUNNING and record.fence != history.claimed.get(job_id):
            raise Broken(f"one_fence: {show_id(job_id)} runs under a fence that no claim was given")


def refused_writes_change_nothing(before: Job | None, after: Job | None) -> None:
    """A write that was answered with stale or already left no trace on a job that nobody else touched."""
    if before != after:
        raise Broken(f"refused_writes_change_nothing: {before} became {after}")


def _admitted(record: Record) -> bool:
    """Whether a job of a lane certainly holds one of its places.

    A job that waits for its next try holds one too, but cannot be told from one that never had a place.
    """
    return record.state in (State.READY, State.RUNNING)


def lanes_keep_their_bound(picture: Picture, history: History) -> None:
    """Never more jobs of a lane in streams or running than the largest limit anybody stated."""
    admitted = Counter(request.lane for _, request, record in picture.records() if request.lane and _admitted(record))
    for lane, n in admitted.items():
        if n > history.lane_limits.get(lane or "", 1):
            raise Broken(f"lanes_keep_their_bound: {n} jobs of lane {lane} are admitted")


def lanes_keep_their_order(picture: Picture, history: History) -> None:
    """Of two plain jobs of a lane, the one whose insert was acknowledged first is admitted first."""
    place = {job_id: n for n, job_id in enumerate(history.sent)}
    waiting: dict[str, int] = {}
    for job_id, request, record in picture.records():
        if _plain(request, history) and record.state is State.HELD and request.lane is not None:
            at = place.get(job_id, len(place))
            waiting[request.lane] = min(at, waiting.get(request.lane, at))
    for job_id, request, record in picture.records():
        if not _plain(request, history) or not _admitted(record) or request.lane not in waiting:
            continue
        if place.get(job_id, len(place)) > waiting[request.lane]:
            raise Broken(f"lanes_keep_their_order: {show_id(job_id)} was admitted before its turn")


def _plain(request: Request, history: History) -> bool:
    """Joins its lane the moment it is inserted, and once."""
    return (
        request.lane is not None
        and not request.parents
        and request.flow is None
        and not request.delay_us
        and request.at_us is None
        and request.id in history.sent
        and request.id not in history.retried
        and request.id not in history.imported
    )


def one_blocker_per_key(picture: Picture) -> None:
    """At most one job blocks a unique key, and only for as long as its scope says."""
    blockers: dict[str, JobId] = {}
    for job_id, request, record in picture.records():
        if not record.blocks:
            continue
        if request.unique is None:
            raise Broken(f"one_blocker_per_key: {show_id(job_id)} blocks without a key")
        other = blockers.setdefault(request.unique.key, job_id)
        if other != job_id:
            raise Broken(f"one_blocker_per_key: {show_id(job_id)} and {show_id(other)} hold one key")
        until = request.unique.until
        if (until == "start" and record.state not in WAITING) or (until == "end" and record.state in ENDED):
            raise Broken(f"one_blocker_per_key: {show_id(job_id)} is {record.state} and still blocks")


def counters_are_true(picture: Picture) -> None:
    """The kept counters are what one would count."""
    counted = Counter((record.queue, request.task, record.state) for _, request, record in picture.records())
    if counted != picture.counts:
        raise Broken(f"counters_are_true: counted {dict(counted)}, kept {dict(picture.counts)}")


def states_make_sense(picture: Picture) -> None:
    """What a record says fits its state."""
    for job_id, _, record in picture.records():
        state = record.state
        wrong = (
            ((record.hold is not None) is not (state is State.HELD), "hold"),
            ((record.ended_us is not None) is not (state in ENDED), "ended_us"),
            (state is State.RUNNING and record.worker is None, "worker"),
            (state is State.RUNNING and record.claimed_us is None, "claimed_us"),
            (record.attempt < 1 or record.crashes < 0 or record.losses < 0, "counts"),
        )
        for is_wrong, name in wrong:
            if is_wrong:
                raise Broken(f"states_make_sense: {show_id(job_id)} is {state} with a wrong {name}")


def asks_are_remembered(picture: Picture, history: History) -> None:
    """A running job whose cancel was asked for is cancelled for the reason given, or one of its own, or succeeds."""
    for job_id, _, record in picture.records():
        before = history.last.get(job_id)
        if before is None or before.state is not State.RUNNING or not before.cancel_asked:
            continue
        forgotten = record.state is State.CANCELLED and record.reason in (None, CANCELLED)
        if (forgotten and record.reason != before.reason) or (record.state is State.SUCCEEDED and record.reason):
            raise Broken(
                f"asks_are_remembered: {show_id(job_id)} was to be cancelled ({before.reason})"
                f" and is {record.state} ({record.reason})"
            )


def nobody_waits_for_nothing(picture: Picture, history: History) -> None:
    """A held job's flow has not started, or a parent is open, or its lane is busy."""
    busy = {
        request.lane
        for _, request, record in picture.records()
        if _admitted(record) or (record.state is State.SCHEDULED and record.fence)
    }
    for job_id, request, record in picture.records():
        if record.state is not State.HELD:
            continue
        match record.hold:
            case Hold.FLOW:
                true = request.flow is not None and request.flow not in history.started
            case Hold.PARENTS:
                true = any(
                    open_parent(picture, request, history.instead.get(edge.parent, edge.parent))
                    for edge in request.parents
                )
            case Hold.LANE:
                true = request.lane in busy
            case None:
                true = False
        if not true:
            raise Broken(f"nobody_waits_for_nothing: {show_id(job_id)} waits for its {record.hold}")


def open_parent(picture: Picture, child: Request, parent: JobId) -> bool:
    """Whether a parent, or the follow-up that took its place, is still to end; a flow's may still be to come."""
    job = picture.jobs.get(parent)
    if job is None or job.record is None:
        # Retention may have taken the parent while the follow-up that took its place goes on.
        heirs = (record for _, _, record in picture.records() if record.heir_of == parent)
        return child.flow is not None or any(heir.state not in ENDED for heir in heirs)
    if job.record.heir is None:
        return job.record.state not in ENDED
    return open_parent(picture, child, job.record.heir)


def runners_are_alive(picture: Picture) -> None:
    """What runs is held by a worker whose card the store holds."""
    for job_id, _, record in picture.records():
        if record.state is State.RUNNING and record.worker not in picture.cards:
            raise Broken(f"runners_are_alive: {show_id(job_id)} is running and its worker has no card")
