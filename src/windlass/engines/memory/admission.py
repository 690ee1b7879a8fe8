"""How a job becomes ready, and what its end sets free. These are the rules of DESIGN §7 in plain Python.

A job passes four doors in this order, and waits at the first that is shut:

    its flow has started  →  its parents have closed  →  it is due  →  its lane has a place
         (held)                    (held)               (scheduled)         (held)

What one step sets free may be more than a step may touch; then the rest is written down as a chore and done
in steps of a hundred by whoever settles or sweeps next. Every step of a chore can be done twice.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from typing import cast

from windlass.core.errors import UnknownParent
from windlass.core.gates import resource_class
from windlass.core.ids import JobId, WorkerId, show_id
from windlass.core.job import ENDED, WAITING, Edge, Hold, Job, Record, State, due_us
from windlass.core.limits import Limits
from windlass.core.rank import next_order, rank
from windlass.engines.memory.store import Chore, Flow, Lane, Row, Store
from windlass.engines.protocol import BATCH, Hint, Receipt


class Admission:
    """The rules that move jobs between waiting and ready, and away at their end."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self.store = store
        self.limits = limits
        self.woken: set[str] = set()
        """Queues that got a ready job in this step."""
        self.ends: list[JobId] = []
        """Jobs that ended in this step."""
        self.stand_ins: dict[JobId, JobId] = {}
        """Jobs of this step that were refused as duplicates, and whom their dependents wait for instead."""
        self.asked: set[WorkerId] = set()
        """Workers that have to stop a job."""

    def hints(self) -> list[Hint]:
        """What this step has to tell those who listen."""
        return [
            *(Hint(kind="work", queue=queue) for queue in self.woken),
            *(Hint(kind="end", id=job_id) for job_id in self.ends),
            *(Hint(kind="order", id=worker) for worker in self.asked),
        ]

    # ── coming in ───────────────────────────────────────────────────────────────────────────────────────

    def check_parents(self, jobs: Sequence[Job]) -> None:
        """Refuses a job outside a flow whose parent is neither here nor in the same batch.

        An imported job that has ended waits for nobody; a parent whose heir is gone cannot be waited for.
        """
        coming = {job.id for job in jobs}
        for job in jobs:
            if job.request.flow is not None or (job.record is not None and job.record.state in ENDED):
                continue
            for edge in job.request.parents:
                if edge.parent not in coming and self._resolve(edge.parent) is None:
                    raise UnknownParent(
                        f"The parent {show_id(edge.parent)} of a {job.request.task} job is not in the store.",
                        "Insert parents first, or put both into one flow.",
                    )

    def insert(self, job: Job, now_us: int, heir_of: JobId | None = None) -> Receipt:
        """Takes a job in, unless it is here already or its unique key is held."""
        store, request = self.store, job.request
        if request.id in store.rows:
            return Receipt(id=request.id, duplicate_of=request.id)
        # An imported job whose key was cleared takes it no more: it neither blocks nor is blocked.
        unique = request.unique if job.record is None or job.record.blocks else None
        if unique is not None:
            holder = self.holder(unique.key, now_us)
            if holder is not None:
                self.stand_ins[request.id] = holder.request.id
                self._stand_in(request.id, holder)
                return Receipt(id=request.id, duplicate_of=holder.request.id)
        store.seq += 1
        row = Row(
            seq=store.seq,
            request=request,
            state=None,
            queue=request.queue,
            created_us=now_us,
            due_us=due_us(request, now_us),
            expires_us=request.expires_us,
            heir_of=heir_of,
        )
        store.add(row)
        if unique is not None:
            period = unique.period_us if unique.until == "time" else None
            store.take_key(row, unique.key, None if period is None else now_us + period)
        if request.flow is not None:
            flow = store.flows.setdefault(request.flow, Flow())
            flow.rows[row.seq] = row
            flow.open += 1
        if job.record is not None:
            self._bring_back(row, job, job.record, now_us)
        elif self._join_parents(row):
            self.place(row, now_us)
        else:
            self.end(row, State.CANCELLED, now_us, reason="parent")
        self.watch_expiry(row)
        return Receipt(id=request.id)

    def _stand_in(self, refused: JobId, holder: Row) -> None:
        """Lets those who came before a refused job, and wait for it, wait for the one that is there instead."""
        if refused not in self.store.edges:
            return
        there = self._resolve(holder.request.id)
        if there is None or there.state in ENDED:
            self.store.chores.append(Chore("close", refused, note=State.CANCELLED if there is None else there.state))
        else:
            self.store.edges.setdefault(there.root, deque()).extend(self.store.edges.pop(refused))

    def watch_expiry(self, row: Row) -> None:
        """Lets sweep know when a waiting job runs out of time."""
        if row.state in WAITING and row.expires_us is not None:
            heapq.heappush(self.store.expiring, (row.expires_us, row.seq, row))

    def _bring_back(self, row: Row, job: Job, record: Record, now_us: int) -> None:
        """An import: the job comes with what it has behind it. Nobody runs it here, so running is ready."""
        for name in ("fence", "settled_fence", "attempt", "crashes", "losses", "suspect", "created_us"):
            setattr(row, name, getattr(record, name))
        row.queue, row.rank, row.due_us = record.queue, record.rank, record.due_us
        row.failure, row.attempts = job.failure, list(job.attempts)
        row.heir, row.heir_of = record.heir, record.heir_of
        if record.state in ENDED:
            ended_us = now_us if record.ended_us is None else record.ended_us
            row.result, row.result_until_us = job.result, ended_us + self.limits.keep_result_us
            self.end(row, record.state, now_us, reason=record.reason, import_us=record.ended_us)
        elif self._join_parents(row):
            self.place(row, now_us, keep_rank=record.state in (State.READY, State.RUNNING))
        else:
            self.end(row, State.CANCELLED, now_us, reason="parent")

    def _join_parents(self, row: Row) -> bool:
        """Draws an edge from every parent still open; False if one has ended the wrong way."""
        for edge in row.request.parents:
            parent = self._resolve(self.stand_ins.get(edge.parent, edge.parent))
            if parent is None or parent.state not in ENDED:
                root = edge.parent if parent is None else parent.root
                self.store.edges.setdefault(root, deque()).append((row, edge))
                row.open_edges += 1
            elif not _satisfied(edge, parent.state):
                return False
        return True

    def _resolve(self, parent: JobId) -> Row | None:
        row = self.store.rows.get(parent)
        while row is not None and row.heir is not None:
            row = self.store.rows.get(row.heir)
        return row

    def holder(self, key: str, now_us: int) -> Row | None:
        """The job that blocks this key now."""
        row = self.store.keys.get(key)
        if row is not None and row.key_until_us is not None and row.key_until_us <= now_us:
            self.store.clear_key(row)
            return None
        return row

    # ── the four doors ──────────────────────────────────────────────────────────────────────────────────

    def place(self, row: Row, now_us: int, *, keep_rank: bool = False) -> None:
        """Puts a job where it has to wait, or into a stream. Its rank is set here and nowhere else."""
        store, request = self.store, row.request
        row.hold = None
        if request.flow is not None and not store.flows[request.flow].started:
            self._hold(row, Hold.FLOW)
            return
        if row.open_edges:
            self._hold(row, Hold.PARENTS)
            return
        if row.due_us > now_us:
            if not row.slot:
                row.rank = rank(row.due_us, request.priority, self.limits.aging_step_us)
            store.turn(row, State.SCHEDULED)
            self.woken.add(row.queue)  # somebody must know when to look again
            heapq.heappush(store.scheduled, (row.due_us, row.seq, row))
            return
        if not row.slot and not keep_rank:
            store.order = next_order(store.order, now_us)
            row.rank = rank(store.order, request.priority, self.limits.aging_step_us)
        if request.lane is not None and not row.slot:
            self._join_lane(row, request.lane, now_us)
        else:
            self._ready(row)

    def _hold(self, row: Row, hold: Hold) -> None:
        row.hold = hold
        self.store.turn(row, State.HELD)

    def _ready(self, row: Row) -> None:
        request = row.request
        key = (
            row.queue,
            request.gate,
            tuple(sorted(request.needs)) if row.parked else resource_class(request.needs),
            request.task if row.parked else None,
            row.suspect,
        )
        self.store.turn(row, State.READY)
        self.store.enter(row, self.store.stream(key))
        self.woken.add(row.queue)

    def park(self, row: Row) -> None:
        """Moves a ready job to the stream of its own task and its very needs; it keeps its rank and stays there."""
        self.store.leave(row, running=False)
        row.parked = True
        self._ready(row)

    def come_due(self, now_us: int, limit: int) -> int:
        """Moves up to `limit` due jobs on."""
        store, moved = self.store, 0
        while moved < limit and store.scheduled and store.scheduled[0][0] <= now_us:
            due, _, row = heapq.heappop(store.scheduled)
            if row.state is State.SCHEDULED and row.due_us == due:
                self._came_due(row, now_us)
                moved += 1
        return moved

    def _came_due(self, row: Row, now_us: int) -> None:
        """A due job keeps the rank it got when it was scheduled."""
        if row.request.lane is not None and not row.slot:
            self._join_lane(row, row.request.lane, now_us)
        else:
            self._ready(row)

    def run_now(self, row: Row, now_us: int) -> None:
        """A scheduled job becomes due by a person's word."""
        row.due_us = now_us
        self.place(row, now_us)

    # ── lanes ───────────────────────────────────────────────────────────────────────────────────────────

    def _join_lane(self, row: Row, name: str, now_us: int) -> None:
        store = self.store
        lane = store.lanes.setdefault(name, Lane())
        store.order = next_order(store.order, now_us)
        row.place = store.order
        if row.request.lane_limit is not None:
            lane.limit = row.request.lane_limit
        heapq.heappush(lane.waiting, (row.place, row.seq, row))
        self._hold(row, Hold.LANE)
        self._admit(name, lane, now_us)

    def _admit(self, name: str, lane: Lane, now_us: int) -> int:
        """Lets the first waiting jobs into their streams, each ranked above the one before it."""
        admitted = 0
        while lane.busy < lane.limit and lane.waiting:
            if admitted >= BATCH:
                self.store.chores.append(Chore("lane", name))
                return admitted
            place, _, row = heapq.heappop(lane.waiting)
            if row.state is not State.HELD or row.hold is not Hold.LANE or row.place != place:
                continue
            admitted += 1
            if row.expires_us is not None and row.expires_us <= now_us:
                self.end(row, State.EXPIRED, now_us)
                continue
            lane.busy += 1
            row.slot, row.hold = True, None
            lane.last_rank = row.rank = max(row.rank, lane.last_rank + 1)
            self._ready(row)
        if not lane.busy and not lane.waiting:
            self.store.lanes.pop(name, None)
        return admitted

    def _leave_lane(self, row: Row, now_us: int) -> None:
        name = row.request.lane
        if name is not None and row.slot:
            row.slot = False
            lane = self.store.lanes[name]
            lane.busy -= 1
            self._admit(name, lane, now_us)

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────

    def end(
        self,
        row: Row,
        state: State,
        now_us: int,
        *,
        reason: str | None = None,
        keep_us: int | None = None,
        import_us: int | None = None,
    ) -> None:
        """Ends a job for good: its key, its place in the lane and its dependents are set free with it."""
        store = self.store
        if row.stream is not None:
            store.leave(row, running=row.state is State.RUNNING)
        store.turn(row, state)
        row.reason, row.hold = reason, None
        row.ended_us = now_us if import_us is None else import_us
        row.keep_us = self._kept(state) if keep_us is None else keep_us
        if row.request.unique is not None and row.request.unique.until != "time":
            store.clear_key(row)
        self.ends.append(row.request.id)
        self._leave_lane(row, now_us)
        if row.heir is None and row.root in store.edges:
            store.chores.append(Chore("close", row.root, note=state))
        if row.request.flow is None:
            self._set_purge(row)
        else:
            flow = store.flows[row.request.flow]
            flow.open -= 1
            if not flow.open:
                store.chores.append(Chore("retain", row.request.flow, note=tuple(flow.rows.values())))

    def _kept(self, state: State) -> int:
        return {
            State.SUCCEEDED: self.limits.keep_succeeded_us,
            State.DEAD: self.limits.keep_dead_us,
            State.CANCELLED: self.limits.keep_cancelled_us,
        }.get(state, self.limits.keep_expired_us)

    def _set_purge(self, row: Row) -> None:
        """When the record may go: after its time, and not while its key still blocks others."""
        assert row.ended_us is not None
        row.purge_us = max(row.ended_us + row.keep_us, row.key_until_us or 0)
        heapq.heappush(self.store.purging, (row.purge_us, row.seq, row))

    # ── chores ──────────────────────────────────────────────────────────────────────────────────────────

    def do_chores(self, now_us: int, limit: int) -> int:
        """Goes on with the oldest chores until about `limit` jobs were touched; how many were."""
        done = 0
        while self.store.chores and done < limit:
            chore = self.store.chores[0]
            touched, finished = self._step(chore, now_us, min(BATCH, limit - done))
            done += max(1, touched)
            if finished:
                self.store.chores.remove(chore)
        return done

    def _step(self, chore: Chore, now_us: int, limit: int) -> tuple[int, bool]:
        key = chore.key
        if chore.kind == "lane":
            assert isinstance(key, str)
            lane = self.store.lanes.get(key)
            return (0 if lane is None else self._admit(key, lane, now_us)), True
        assert isinstance(key, bytes)
        match chore.kind:
            case "close":
                assert isinstance(chore.note, State)
                return self._close(key, chore.note, now_us, limit)
            case "insert":
                return self._insert_on(chore, cast("tuple[Job, ...]", chore.note), now_us, limit)
            case _:
                return self._walk_flow(chore, key, now_us, limit)

    def _close(self, parent: JobId, state: State, now_us: int, limit: int) -> tuple[int, bool]:
        """Closes edges of an ended job: a child with none left goes on, or ends with its parent."""
        edges = self.store.edges.get(parent, deque[tuple[Row, Edge]]())
        touched = 0
        while edges and touched < limit:
            row, edge = edges.popleft()
            row.open_edges -= 1
            touched += 1
            if row.state is not State.HELD:
                continue
            if not _satisfied(edge, state):
                self.end(row, State.CANCELLED, now_us, reason="parent")
            elif not row.open_edges and row.hold is Hold.PARENTS:
                self.place(row, now_us)
        if not edges:
            self.store.edges.pop(parent, None)
        return touched, not edges

    def _insert_on(self, chore: Chore, jobs: tuple[Job, ...], now_us: int, limit: int) -> tuple[int, bool]:
        """Goes on inserting the follow-ups of a settle that brought more than a step may touch."""
        chunk = jobs[chore.at : chore.at + limit]
        for job in chunk:
            self.insert(job, now_us)
        chore.at += len(chunk)
        return len(chunk), chore.at >= len(jobs)

    def _walk_flow(self, chore: Chore, key: JobId, now_us: int, limit: int) -> tuple[int, bool]:
        """Starts a flow's waiting nodes, or, once it has ended, lets their retention begin."""
        flow = self.store.flows.get(key)
        rows = cast("tuple[Row, ...]", chore.note)
        if flow is None:
            return 0, True
        chunk = rows[chore.at : chore.at + limit]
        for row in chunk:
            if chore.kind == "start" and row.hold is Hold.FLOW:
                self.place(row, now_us)
            elif chore.kind == "retain" and not flow.open and row.state in ENDED and row.purge_us is None:
                self._set_purge(row)
        chore.at += len(chunk)
        return len(chunk), chore.at >= len(rows)


def _satisfied(edge: Edge, state: State | None) -> bool:
    return edge.on == "ended" or state is State.SUCCEEDED
