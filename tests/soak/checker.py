"""The invariants of DESIGN §10 as pure functions over what processes wrote down and what the store holds at the end.

| number | function |
| --- | --- |
| 1 | acknowledged_inserts_end_once |
| 2 | nothing_appears |
| 3 | one_claim_holds_a_fence |
| 4 | fences_grow |
| 5 | stale_settles_change_nothing |
| 6 | guarded_effects_happen_once |
| 7 | runs_are_paid_for, written_ends_stay |
| 8 | lanes_never_overlap |
| 9 | lanes_keep_their_order |
| 10 | nothing_runs_without_an_owner |
| 11 | nothing_leaks |
| 12 | the_store_is_whole |
| §4, §7 | follow_ups_exist_once, keys_block, parents_come_first, ends_have_a_reason |

A call without an answer may have happened or not, so every function only speaks up about what is certain: of two
calls one was before the other only if its answer had come before the other was made.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import msgspec

from tests.soak.recorder import Line
from tests.soak.runs import Mark, begun
from tests.soak.workload import Deed, follow_ups
from windlass.core.job import ENDED, Job, Outcome, Record, Request, State

NEVER = 1 << 63
GIVEN_BACK = "given back"
"""Asked of a claim whose run did not come to an end of its own."""


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that does not hold, and the job that shows it ("" where it is the store itself)."""

    invariant: str
    job: str
    text: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.text}" + (f" (job {self.job})" if self.job else "")


@dataclass(frozen=True, slots=True)
class Call:
    """One job in one call. `done` is None where no answer was written down."""

    op: str
    worker: str
    process: str
    call: int
    place: int
    """Its place in the call's list."""
    made: int
    done: int | None
    fence: int
    asked: str
    answer: str


@dataclass(slots=True)
class History:
    """The calls of all processes by job."""

    inserts: defaultdict[str, list[Call]] = field(default_factory=lambda: defaultdict(list[Call]))
    claims: defaultdict[str, list[Call]] = field(default_factory=lambda: defaultdict(list[Call]))
    settles: defaultdict[str, list[Call]] = field(default_factory=lambda: defaultdict(list[Call]))
    cancels: defaultdict[str, list[Call]] = field(default_factory=lambda: defaultdict(list[Call]))
    broken: list[str] = field(default_factory=list[str])
    counts: Counter[str] = field(default_factory=Counter[str])


def digest(lines: Iterable[Line]) -> History:
    """Ties answers to invocations; `lines` are in the order of time."""
    history = History()
    open_: dict[tuple[str, int], Line] = {}
    for line in lines:
        key = (line.process, line.call)
        if line.op == "broke":
            history.broken.append(f"{line.process}: {line.note}")
        elif line.what == "invoke":
            open_[key] = line
        elif line.what == "ok":
            made = open_.pop(key, line)
            _take(history, made, line)
    for made in open_.values():
        # A claim or a sweep that found nothing writes no answer.
        history.counts["unanswered"] += made.op not in ("claim", "sweep")
        _take(history, made, None)
    return history


def hear_repeats(history: History) -> History:
    """For engines that repeat a call whose answer was lost: where nobody else asked, `already` was their own doing."""
    for calls in history.settles.values():
        asked = Counter(call.fence for call in calls)
        calls[:] = [
            replace(call, answer="accepted") if call.answer == "already" and asked[call.fence] == 1 else call
            for call in calls
        ]
    return history


def _take(history: History, made: Line, done: Line | None) -> None:
    shelves = {
        "insert": history.inserts,
        "claim": history.claims,
        "settle": history.settles,
        "resettle": history.settles,
        "cancel": history.cancels,
    }
    if made.op == "sweep" and done is not None:
        workers, lost = done.note.split()
        history.counts["swept_workers"] += int(workers)
        history.counts["lost"] += int(lost)
    shelf = shelves.get(made.op)
    if shelf is None:
        return
    # A claim's invocation names no job yet; every other one names all.
    entries = made.jobs or (done.jobs if done is not None else ())
    answers = done.jobs if done is not None else ()
    for place, (job, fence, asked) in enumerate(entries):
        answer = answers[place][2] if place < len(answers) else ""
        history.counts[f"{made.op}s"] += 1
        if made.op.endswith("settle"):
            history.counts[f"{made.op}_{answer or 'unanswered'}"] += 1
        shelf[job].append(
            Call(
                op=made.op,
                worker=made.worker,
                process=made.process,
                call=made.call,
                place=place,
                made=made.at,
                done=None if done is None else done.at,
                fence=fence,
                asked=asked if made.op != "claim" else made.note,
                answer=answer,
            )
        )


@dataclass(frozen=True, slots=True)
class Store:
    """What is there at the end. `leftovers` names what should have gone."""

    jobs: Mapping[str, Job]
    counts: Mapping[tuple[str, str, State], int]
    integrity: Sequence[str]
    leftovers: Sequence[str] = ()
    noticed: bool = False
    """Whether open saw that the last end was unclean."""


def _read_deed(payload: bytes) -> Deed:
    return msgspec.json.decode(payload, type=Deed)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that is known about one round. `drained`: all processes went home, nothing was left to do."""

    plan: Mapping[str, Request]
    history: History
    store: Store
    effects: Sequence[tuple[str, int]] = ()
    drained: bool = True
    marks: Sequence[Mark] = ()
    """Of the runs, where tasks wrote them down."""
    read_deed: Callable[[bytes], Deed] = _read_deed
    leases: bool = False
    """Whether a worker that is cut off stops runs and gives them back, which no record counts."""

    def record(self, job: str) -> Record | None:
        found = self.store.jobs.get(job)
        return None if found is None else found.record

    def deed(self, job: str) -> Deed:
        return self.read_deed(self.store.jobs[job].request.payload)

    def first_fence(self, job: str) -> int:
        """The fence of its first claim, written down or not: a kill may have eaten the line. NEVER: none."""
        found = self.store.jobs[job]
        fences = [call.fence for call in self.history.claims.get(job, ())]
        fences += [attempt.fence for attempt in found.attempts]
        if found.record is not None and found.record.settled_fence:
            fences.append(found.record.settled_fence)
        return min(fences, default=NEVER)


TERMINAL = frozenset(state.value for state in ENDED)
Check = Callable[[Evidence], Iterator[Violation]]


def acknowledged_inserts_end_once(evidence: Evidence) -> Iterator[Violation]:
    """1: what was acknowledged is there; it has ended (after a drain), once, and as its settle said."""
    name = "1 acknowledged_inserts_end_once"
    for job, calls in evidence.history.inserts.items():
        record = evidence.record(job)
        taken = any(call.answer in ("new", job) for call in calls)
        if taken and record is None:
            yield Violation(name, job, "was acknowledged and is gone")
        elif record is not None and evidence.drained and record.state not in ENDED:
            yield Violation(name, job, f"never ended, is {record.state}")
        elif record is not None and not taken and all(call.done for call in calls):
            yield Violation(name, job, "was refused as a duplicate and is there")
    for job, calls in evidence.history.settles.items():
        ends = [call for call in calls if call.answer == "accepted" and call.asked in TERMINAL]
        record = evidence.record(job)
        if len(ends) > 1:
            yield Violation(name, job, f"ended {len(ends)} times")
        if ends and record is None:
            yield Violation(name, job, "was settled and is gone")
        elif ends and record is not None and (record.state, record.settled_fence) != (ends[0].asked, ends[0].fence):
            yield Violation(name, job, f"was settled as {ends[0].asked} and is {record.state}")


def nothing_appears(evidence: Evidence) -> Iterator[Violation]:
    """2: what is there was sent, as it is, by an insert or by the settle of its parent."""
    name = "2 nothing_appears"
    born: dict[str, Request] = {}
    for job, calls in evidence.history.settles.items():
        if job in evidence.store.jobs and any(call.asked == State.SUCCEEDED for call in calls):
            born |= {child.id.hex(): child.request for child in follow_ups(bytes.fromhex(job), evidence.deed(job))}
    for job, found in evidence.store.jobs.items():
        known = evidence.plan.get(job) if job in evidence.history.inserts else born.get(job)
        if known is None:
            yield Violation(name, job, "nobody sent it")
        elif known != found.request:
            yield Violation(name, job, "its request has changed")


def one_claim_holds_a_fence(evidence: Evidence) -> Iterator[Violation]:
    """3: no two workers were given one fence, and nothing was accepted from an older one after a newer claim."""
    name = "3 one_claim_holds_a_fence"
    for job, claims in evidence.history.claims.items():
        owners: dict[int, str] = {}
        for claim in claims:
            if owners.setdefault(claim.fence, claim.worker) != claim.worker:
                yield Violation(name, job, f"two workers were given fence {claim.fence}")
        for settle in evidence.history.settles.get(job, ()):
            if settle.answer != "accepted":
                continue
            if settle.fence not in owners:
                yield Violation(name, job, f"fence {settle.fence} was accepted and never given")
            for claim in claims:
                if claim.fence > settle.fence and (claim.done or NEVER) < settle.made:
                    yield Violation(name, job, f"fence {settle.fence} was accepted after {claim.fence} was given")


def fences_grow(evidence: Evidence) -> Iterator[Violation]:
    """4: a later claim has a greater fence, but for the same ticket asked twice; the record has the last."""
    name = "4 fences_grow"
    for job, claims in evidence.history.claims.items():
        record = evidence.record(job)
        for first in claims:
            if record is not None and record.fence < first.fence:
                yield Violation(name, job, f"fence {first.fence} was given and the record says {record.fence}")
            for second in claims:
                again = (first.worker, first.asked) == (second.worker, second.asked)
                if (first.done or NEVER) < second.made and (
                    first.fence != second.fence if again else first.fence >= second.fence
                ):
                    yield Violation(name, job, f"fence {second.fence} was given after {first.fence}")


def stale_settles_change_nothing(evidence: Evidence) -> Iterator[Violation]:
    """5: one settle per fence is accepted; a repeat is `already` or stale, and the record shows none of it."""
    name = "5 stale_settles_change_nothing"
    for job, calls in evidence.history.settles.items():
        accepted = Counter(call.fence for call in calls if call.answer == "accepted")
        for fence, n in accepted.items():
            if n > 1:
                yield Violation(name, job, f"fence {fence} was accepted {n} times")
        for call in calls:
            others = [other for other in calls if other.fence == call.fence and other is not call]
            if call.answer == "already" and not any(other.made < (call.done or NEVER) for other in others):
                yield Violation(name, job, f"fence {call.fence} was called settled before anybody did")
        record = evidence.record(job)
        if record is None:
            continue
        if accepted and record.settled_fence < max(accepted):
            yield Violation(name, job, f"fence {max(accepted)} was accepted and the record forgot it")
        open_ = {call.fence for call in calls if call.done is None}
        if record.settled_fence and record.settled_fence not in accepted and record.settled_fence not in open_:
            yield Violation(name, job, f"the record was settled by {record.settled_fence}, which was not accepted")


def guarded_effects_happen_once(evidence: Evidence) -> Iterator[Violation]:
    """6: the ledger takes an effect unless it saw a greater fence; the one that stays is the settled run's."""
    name = "6 guarded_effects_happen_once"
    ledger = guard(evidence.effects)
    arrived = Counter(evidence.effects)
    for job, found in evidence.store.jobs.items():
        record = found.record
        if record is None or record.state is not State.SUCCEEDED:
            continue
        n = arrived[job, record.settled_fence]
        if n != 1:
            yield Violation(name, job, f"succeeded, and its settled run had {n} effects")
        elif ledger[job] != record.settled_fence:
            yield Violation(name, job, "the effect of an older run came after the settled one")
        if found.result is not None and int.from_bytes(found.result, "big") != record.settled_fence:
            yield Violation(name, job, "its result is that of another run")


def guard(effects: Iterable[tuple[str, int]]) -> dict[str, int]:
    """What a guarded sink keeps: for each job the effect with the greatest fence, refusing older ones."""
    kept: dict[str, int] = {}
    for job, fence in effects:
        if fence >= kept.get(job, 0):
            kept[job] = fence
    return kept


def runs_are_paid_for(evidence: Evidence) -> Iterator[Violation]:
    """7: a job runs once, and once more for each attempt, crash and loss that its record counts.

    Where leases are, once more for each run that was given back.
    """
    for job, runs in Counter(mark.job for mark in begun(evidence.marks)).items():
        record = evidence.record(job)
        faults = 0 if record is None else record.attempt - 1 + record.crashes + record.losses
        if evidence.leases:
            began = {mark.fence for mark in begun(evidence.marks) if mark.job == job} if runs > 1 else set[int]()
            back = {call.fence for call in evidence.history.settles[job] if call.asked == GIVEN_BACK}
            faults += len(began & back)
        if runs > 1 + faults:
            yield Violation("7 runs_are_paid_for", job, f"ran {runs} times, and its record knows of {faults} faults")


def written_ends_stay(evidence: Evidence) -> Iterator[Violation]:
    """7, where no supervisor died: a slot that begins its next job had written the end of the one before.

    Only for jobs that do not fail: who is tried again runs again.
    """
    last: dict[tuple[int, int], str] = {}
    written: set[str] = set()
    for mark in begun(evidence.marks):
        slot = (mark.pid, mark.thread)
        if slot in last:
            written.add(last[slot])
        last[slot] = mark.job
        if mark.job in written:
            yield Violation("7 written_ends_stay", mark.job, "ran again after its end had been written")


def lanes_never_overlap(evidence: Evidence) -> Iterator[Violation]:
    """8: from its first claim to its end a job holds a place of its lane; never more than there are."""
    name = "8 lanes_never_overlap"
    moments: defaultdict[str, list[tuple[int, int, str]]] = defaultdict(list)
    limits: dict[str, int] = {}
    for job, found in evidence.store.jobs.items():
        lane, claims = found.request.lane, evidence.history.claims.get(job)
        if lane is None or not claims:
            continue
        limits[lane] = found.request.lane_limit or 1
        first = min(call.done or NEVER for call in claims)
        ends = [call for call in evidence.history.settles.get(job, ()) if call.answer == "accepted"]
        # Certain is: it was held up to the moment its last accepted settle was sent.
        last = max([call.made for call in ends], default=first)
        if first < last:
            moments[lane] += [(first, 1, job), (last, -1, job)]
    for lane, steps in moments.items():
        held = 0
        for _, step, job in sorted(steps):
            held += step
            if held > limits[lane]:
                yield Violation(name, job, f"{held} jobs of lane {lane} were held at once")


def lanes_keep_their_order(evidence: Evidence) -> Iterator[Violation]:
    """9: of two jobs of a lane, the one whose insert was acknowledged before the other was sent runs first."""
    name = "9 lanes_keep_their_order"
    lanes: defaultdict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for job, calls in evidence.history.inserts.items():
        if job in evidence.store.jobs and (lane := evidence.store.jobs[job].request.lane) is not None:
            acknowledged = min(call.done or NEVER for call in calls)
            lanes[lane].append((acknowledged, min(call.made for call in calls), job))
    for jobs in lanes.values():
        fences = {job: evidence.first_fence(job) for _, _, job in jobs}
        for acknowledged, _, first in jobs:
            for _, made, second in jobs:
                earlier = acknowledged < made or _same_list(evidence, first, second)
                if earlier and fences[first] > fences[second] and fences[first] != NEVER:
                    yield Violation(name, second, f"was claimed before {first}, which was there before it")


def _same_list(evidence: Evidence, first: str, second: str) -> bool:
    """Whether both were sent in one list, `first` in front."""
    one, other = evidence.history.inserts[first][0], evidence.history.inserts[second][0]
    return (one.process, one.call) == (other.process, other.call) and one.place < other.place


def nothing_runs_without_an_owner(evidence: Evidence) -> Iterator[Violation]:
    """10: when everybody has gone home, nothing is running."""
    if evidence.drained:
        for job, found in evidence.store.jobs.items():
            if found.record is not None and found.record.state is State.RUNNING:
                yield Violation("10 nothing_runs_without_an_owner", job, "is running and nobody is there")


def nothing_leaks(evidence: Evidence) -> Iterator[Violation]:
    """11: after a drain no row, file or lock is left."""
    if evidence.drained:
        for leftover in evidence.store.leftovers:
            yield Violation("11 nothing_leaks", "", leftover)


def the_store_is_whole(evidence: Evidence) -> Iterator[Violation]:
    """12: SQLite's own integrity check, and counters that are what one would count."""
    name = "12 the_store_is_whole"
    if list(evidence.store.integrity) != ["ok"]:
        yield Violation(name, "", "; ".join(evidence.store.integrity))
    counted = Counter(
        (found.record.queue, found.request.task, found.record.state)
        for found in evidence.store.jobs.values()
        if found.record is not None
    )
    kept = {key: n for key, n in evidence.store.counts.items() if n}
    if counted != kept:
        yield Violation(name, "", f"counters say {kept}, counted {dict(counted)}")


def follow_ups_exist_once(evidence: Evidence) -> Iterator[Violation]:
    """§4: a job that succeeded has its follow-ups (ids are unique in the store, so once)."""
    for job, found in evidence.store.jobs.items():
        if found.record is not None and found.record.state is State.SUCCEEDED and evidence.drained:
            for child in follow_ups(bytes.fromhex(job), evidence.deed(job)):
                if child.id.hex() not in evidence.store.jobs:
                    yield Violation("§4 follow_ups_exist_once", job, f"its follow-up {child.id.hex()} is missing")


def keys_block(evidence: Evidence) -> Iterator[Violation]:
    """§7: two jobs of one key that blocks to the end are never alive together."""
    lives: defaultdict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for job, found in evidence.store.jobs.items():
        unique, record = found.request.unique, found.record
        if unique is not None and record is not None and unique.until == "end":
            lives[unique.key].append((record.created_us, record.ended_us or NEVER, job))
    for key, spans in lives.items():
        spans.sort()
        for (_, ended, _), (created, _, job) in pairwise(spans):
            if created < ended:
                yield Violation("§7 keys_block", job, f"was let in while another held {key}")


def parents_come_first(evidence: Evidence) -> Iterator[Violation]:
    """§7: no job was claimed before its parents, or those who took their place, had ended."""
    for job, found in evidence.store.jobs.items():
        fence = evidence.first_fence(job)
        for edge in found.request.parents:
            parent = evidence.record(edge.parent.hex())
            while parent is not None and parent.heir is not None:
                parent = evidence.record(parent.heir.hex())
            if fence != NEVER and (parent is None or fence < (parent.ended_us or NEVER)):
                yield Violation("§7 parents_come_first", job, f"ran before its parent {edge.parent.hex()}")


def ends_have_a_reason(evidence: Evidence) -> Iterator[Violation]:
    """§3: dead is who failed for good or brought down three workers; cancelled is who was, or whose parent failed."""
    name = "§3 ends_have_a_reason"
    for job, found in evidence.store.jobs.items():
        record = found.record
        if record is None:
            continue
        if record.state is State.DEAD:
            crashes = sum(attempt.outcome is Outcome.CRASHED for attempt in found.attempts)
            poison = record.reason == "poison" and record.crashes == crashes == 3
            if not poison and evidence.deed(job).fails >= 0:
                yield Violation(name, job, f"is dead with reason {record.reason} and {crashes} crashes")
        elif record.state is State.CANCELLED:
            asked = job in evidence.history.cancels
            if not asked and not any(_failed(evidence, edge.parent.hex()) for edge in found.request.parents):
                yield Violation(name, job, "is cancelled and nobody asked for it")
        elif record.state is State.EXPIRED:
            yield Violation(name, job, "expired without an expiry")


def _failed(evidence: Evidence, parent: str) -> bool:
    record = evidence.record(parent)
    while record is not None and record.heir is not None:
        record = evidence.record(record.heir.hex())
    return record is None or record.state is not State.SUCCEEDED


ALL: tuple[Check, ...] = (
    acknowledged_inserts_end_once,
    nothing_appears,
    one_claim_holds_a_fence,
    fences_grow,
    stale_settles_change_nothing,
    guarded_effects_happen_once,
    runs_are_paid_for,
    lanes_never_overlap,
    lanes_keep_their_order,
    nothing_runs_without_an_owner,
    nothing_leaks,
    the_store_is_whole,
    follow_ups_exist_once,
    keys_block,
    parents_come_first,
    ends_have_a_reason,
)


def check(evidence: Evidence, checks: Sequence[Check] = ALL) -> list[Violation]:
    """Every violation of every invariant."""
    return [violation for one in checks for violation in one(evidence)]


def story_of(job: str, lines: Iterable[Line]) -> list[str]:
    """The history of one job: every line that names it, in the order of time."""
    told: list[str] = []
    for line in lines:
        mine = [entry for entry in line.jobs if entry[0] == job]
        if mine or line.op == "kill":
            rest = f"fence {mine[0][1]} {mine[0][2]}" if mine else line.note
            told.append(
                f"{line.at / 1e9:.6f} {line.process:>10} {line.what:>6} {line.op:<8} {rest} {line.worker[:12]}".rstrip()
            )
    return told
