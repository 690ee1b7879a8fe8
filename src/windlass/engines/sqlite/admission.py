"""How a job becomes ready, and what its end sets free: the rules of memory/admission.py, on rows of a table.

A plain job sent to be run at once takes the short way (`insert.py`) and never comes here.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.core.ids import JobId
from windlass.core.job import ENDED, Edge, Hold, Job, Record, State, Unique, due_us
from windlass.core.limits import Limits
from windlass.core.rank import rank
from windlass.engines.protocol import ATTEMPTS_KEPT, BATCH, Receipt
from windlass.engines.sqlite import rows
from windlass.engines.sqlite.rows import Row, encode_extra, encode_failure, needs_text
from windlass.engines.sqlite.statements import sql
from windlass.engines.sqlite.tx import Tx

log = logging.getLogger(__name__)

_encode = msgspec.json.Encoder().encode
_jobs = msgspec.json.Decoder(tuple[Job, ...]).decode

STREAM_FIND, STREAM_MAKE = sql("stream_find"), sql("stream_make")
HELD, READY, SCHEDULED, RUNNING = (
    State.HELD.value,
    State.READY.value,
    State.SCHEDULED.value,
    State.RUNNING.value,
)


def stream_id(tx: Tx, queue: str, gate: str, needs: str, task: str, suspect: int) -> int:
    """The stream of a key, made where it is missing."""
    key = (queue, gate, needs, task, suspect)
    found = tx.run(STREAM_FIND, key).fetchone()
    if found is None:
        found = tx.run(STREAM_MAKE, key).fetchone()
    assert found is not None
    return found[0]


class Admission:
    """The rules that move jobs between waiting and ready, and away at their end."""

    __slots__ = ("coming", "limits", "room", "stand_ins", "tx")

    def __init__(
        self,
        tx: Tx,
        limits: Limits,
        stand_ins: dict[JobId, JobId] | None = None,
        coming: frozenset[JobId] | None = None,
    ) -> None:
        self.tx = tx
        self.limits = limits
        self.stand_ins = {} if stand_ins is None else stand_ins
        """Jobs of this step that were refused as duplicates, and whom their dependents wait for instead."""
        self.coming = coming
        """The jobs of the same call, some of them still to come; None where anything may come."""
        self.room = BATCH
        """How many follow-ups this step may still take in."""

    def turn(self, row: Row, state: str) -> None:
        """Moves a job to a state and keeps the counters true. The caller saves the row."""
        self.tx.counts[row.queue, row.task, row.state] -= 1
        self.tx.counts[row.queue, row.task, state] += 1
        row.state = state

    # ── coming in ───────────────────────────────────────────────────────────────────────────────────────

    def insert(self, job: Job, heir_of: JobId | None = None) -> Receipt:
        """Takes a job in, unless it is here already or its unique key is held."""
        tx, request = self.tx, job.request
        if tx.run(sql("job_known"), (request.id,)).fetchone() is not None:
            return Receipt(id=request.id, duplicate_of=request.id)
        # An imported job whose key was cleared takes it no more: it neither blocks nor is blocked.
        unique = request.unique if job.record is None or job.record.blocks else None
        if unique is not None:
            holder = self.holder(unique.key)
            if holder is not None:
                self.stand_ins[request.id] = holder
                self._stand_in(request.id, holder)
                return Receipt(id=request.id, duplicate_of=holder)
        row = self._new_row(job, unique, heir_of)
        if request.flow is not None:
            tx.run(sql("flow_add"), (request.flow, 1, 1)).fetchone()
        tx.counts[row.queue, row.task, HELD] += 1
        record = job.record
        ended = record is not None and record.state in ENDED
        joined = ended or self._join_parents(row, request.parents)
        extra = (encode_extra(request), request.options or None, request.payload, job.result)
        tx.run(sql("row_insert"), (*msgspec.structs.astuple(row), *extra))
        if record is not None and ended:
            ended_us = tx.now_us if record.ended_us is None else record.ended_us
            row.result_until_us = ended_us + self.limits.keep_result_us
            self.end(row, record.state.value, reason=record.reason, import_us=record.ended_us)
        elif not joined:
            self.end(row, State.CANCELLED.value, reason="parent")
        else:
            self.place(row, keep_rank=record is not None and record.state in (State.READY, State.RUNNING))
        if job.attempts:
            self.keep_attempts(row, [_encode(attempt) for attempt in job.attempts])
        return Receipt(id=request.id)

    def _new_row(self, job: Job, unique: Unique | None, heir_of: JobId | None) -> Row:
        """A row as it is before anything is decided; an import brings along what it has behind it."""
        tx, request = self.tx, job.request
        record = job.record or Record(
            state=State.HELD,
            queue=request.queue,
            due_us=due_us(request, tx.now_us),
            created_us=tx.now_us,
            heir_of=heir_of,
        )
        tx.seq += 1
        return Row(
            seq=tx.seq,
            id=request.id,
            state=HELD,
            queue=record.queue,
            task=request.task,
            stream=None,
            rank=record.rank,
            fence=record.fence,
            settled_fence=record.settled_fence,
            worker=None,
            ticket=0,
            attempt=record.attempt,
            crashes=record.crashes,
            losses=record.losses,
            suspect=int(record.suspect),
            cancel_asked=0,
            priority=request.priority,
            created_us=record.created_us,
            due_us=record.due_us,
            claimed_us=None,
            started_us=None,
            ended_us=None,
            expires_us=request.expires_us,
            purge_us=None,
            keep_us=0,
            reason=None,
            hold=None,
            lane=request.lane,
            lane_limit=request.lane_limit,
            place=None,
            slot=0,
            ukey=None if unique is None else unique.key,
            ukey_clears=None if unique is None else unique.until,
            ukey_until_us=None if unique is None or unique.until != "time" else tx.now_us + unique.period_us,
            gate=request.gate or "",
            needs=needs_text(request.needs),
            parked=0,
            flow=request.flow,
            open_edges=0,
            heir=record.heir,
            heir_of=record.heir_of,
            home=None if record.queue == request.queue else request.queue,
            noted=int(bool(job.attempts)),
            failure=encode_failure(job.failure),
            fingerprint=None if job.failure is None else job.failure.fingerprint,
            result_until_us=0,
        )

    def _join_parents(self, row: Row, parents: Sequence[Edge]) -> bool:
        """Draws an edge from every parent still open; False if one has ended the wrong way."""
        for edge in parents:
            parent = rows.resolve(self.tx.connection, self.stand_ins.get(edge.parent, edge.parent))
            awaited = row.flow is not None or self.coming is None or edge.parent in self.coming
            if parent is None and not awaited:
                return False
            if parent is None or parent.ended_us is None:
                root = edge.parent if parent is None else parent.root
                self.tx.run(sql("edge_add"), (root, row.seq, edge.on))
                row.open_edges += self.tx.connection.changes()
            elif not _satisfied(edge.on, parent.state):
                return False
        return True

    def _stand_in(self, refused: JobId, holder: JobId) -> None:
        """Lets those who came before a refused job, and wait for it, wait for the one that is there instead."""
        if self.tx.run(sql("edge_any"), (refused,)).fetchone() is None:
            return
        there = rows.resolve(self.tx.connection, holder)
        if there is None or there.ended_us is not None:
            self._chore("close", refused, (there.state if there is not None else State.CANCELLED.value).encode())
        else:
            self.tx.run(sql("edge_move"), (refused, there.root))

    def holder(self, key: str) -> JobId | None:
        """The job that blocks this key now."""
        found = self.tx.run(sql("key_holder"), (key,)).fetchone()
        if found is None:
            return None
        seq, job_id, until_us = found
        if until_us is not None and until_us <= self.tx.now_us:
            self.tx.run(sql("key_clear"), (seq,))
            return None
        return job_id

    # ── the four doors ──────────────────────────────────────────────────────────────────────────────────

    def place(self, row: Row, *, keep_rank: bool = False) -> None:
        """Puts a job where it has to wait, or into a stream. Its rank is set here and nowhere else."""
        row.hold = None
        if row.flow is not None and not self._started(row.flow):
            self._hold(row, Hold.FLOW)
        elif row.open_edges:
            self._hold(row, Hold.PARENTS)
        elif row.due_us > self.tx.now_us:
            if not row.slot:
                row.rank = rank(row.due_us, row.priority, self.limits.aging_step_us)
            self.turn(row, SCHEDULED)
            self.tx.woken.add(row.queue)  # somebody must know when to look again
            rows.save(self.tx.connection, row)
        else:
            if not row.slot and not keep_rank:
                row.rank = rank(self.tx.next_order(), row.priority, self.limits.aging_step_us)
            self._enter(row)

    def _started(self, flow: JobId) -> bool:
        found = self.tx.run(sql("flow_find"), (flow,)).fetchone()
        return found is not None and bool(found[0])

    def _hold(self, row: Row, hold: Hold) -> None:
        row.hold = hold.value
        self.turn(row, HELD)
        rows.save(self.tx.connection, row)

    def _enter(self, row: Row) -> None:
        """Past the first three doors: into the lane, or into the stream."""
        if row.lane is not None and not row.slot:
            self._join_lane(row, row.lane)
        else:
            self._ready(row)

    def _ready(self, row: Row) -> None:
        task, needs = (row.task, self._very_needs(row)) if row.parked else ("", row.needs)
        row.stream = stream_id(self.tx, row.queue, row.gate, needs, task, row.suspect)
        self.tx.streams[row.stream][0] += 1
        self.turn(row, READY)
        rows.save(self.tx.connection, row)
        self.tx.woken.add(row.queue)

    def leave(self, row: Row) -> None:
        """Takes a ready or running job out of its stream. The caller saves the row."""
        if row.stream is not None:
            self.tx.streams[row.stream][0 if row.state == READY else 1] -= 1
            row.stream = None

    def park(self, row: Row) -> None:
        """Moves a ready job to the stream of its own task and its very needs; it keeps its rank and stays there."""
        self.leave(row)
        row.parked = 1
        self._ready(row)

    def _very_needs(self, row: Row) -> str:
        return rows.exact_text(rows.needs_of(self.tx.run(sql("extra_read"), (row.id,)).get)) if row.needs else ""

    def come_due(self, limit: int) -> int:
        """Moves up to `limit` due jobs on; each keeps the rank it got when it was scheduled."""
        found = self.tx.run(sql("due_next"), (self.tx.now_us, limit)).fetchall()
        for columns in found:
            self._enter(Row(*columns))
        return len(found)

    # ── lanes ───────────────────────────────────────────────────────────────────────────────────────────

    def _join_lane(self, row: Row, name: str) -> None:
        slots, busy, last_rank = self._lane(name)
        row.place = self.tx.next_order()
        if row.lane_limit is not None and row.lane_limit != slots:
            slots = row.lane_limit
        self.tx.run(sql("lane_save"), (name, slots, busy, last_rank))
        self._hold(row, Hold.LANE)
        self.admit(name)

    def _lane(self, name: str) -> tuple[int, int, int]:
        found = self.tx.run(sql("lane_find"), (name,)).fetchone()
        return (1, 0, 0) if found is None else found

    def admit(self, name: str) -> int:
        """Lets the first waiting jobs into their streams, each ranked above the one before it; how many it saw."""
        slots, busy, last_rank = self._lane(name)
        seen = 0
        found: list[Any] = []
        while busy < slots and seen < BATCH:
            found = self.tx.run(sql("lane_next"), (name, min(slots - busy, BATCH - seen))).fetchall()
            if not found:
                break
            for columns in found:
                row = Row(*columns)
                seen += 1
                if row.expires_us is not None and row.expires_us <= self.tx.now_us:
                    self.end(row, State.EXPIRED.value)
                    continue
                busy += 1
                row.slot, row.hold = 1, None
                last_rank = row.rank = max(row.rank, last_rank + 1)
                self._ready(row)
        if not busy and not found:
            self.tx.run(sql("lane_drop"), (name,))
            return seen
        if seen:
            self.tx.run(sql("lane_save"), (name, slots, busy, last_rank))
        if busy < slots and found:
            self._chore("lane", name.encode())
        return seen

    def free_place(self, name: str) -> None:
        """One of a lane's places is free: the next in line takes it."""
        slots, busy, last_rank = self._lane(name)
        self.tx.run(sql("lane_save"), (name, slots, busy - 1, last_rank))
        self.admit(name)

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────

    def end(
        self,
        row: Row,
        state: str,
        *,
        reason: str | None = None,
        keep_us: int | None = None,
        import_us: int | None = None,
    ) -> None:
        """Ends a job for good: its key, its place in the lane and its dependents are set free with it."""
        self.leave(row)
        self.turn(row, state)
        row.reason, row.hold = reason, None
        row.ended_us = self.tx.now_us if import_us is None else import_us
        row.keep_us = kept_us(self.limits, state) if keep_us is None else keep_us
        if row.ukey is not None and row.ukey_clears != "time":
            self.tx.run(sql("key_clear"), (row.seq,))
        if row.flow is None:
            row.purge_us = max(row.ended_us + row.keep_us, row.ukey_until_us or 0)
        had_place, row.slot = row.slot, 0
        rows.save(self.tx.connection, row)
        if had_place and row.lane is not None:
            self.free_place(row.lane)
        self.ended(row.id, row.flow, row.root if row.heir is None else None, state)

    def ended(self, job_id: JobId, flow: JobId | None, root: JobId | None, state: str) -> None:
        """What an end sets in motion beyond the job itself: dependents, its flow, and those who wait for it."""
        self.tx.ends.append(job_id)
        if root is not None and self.tx.run(sql("edge_any"), (root,)).fetchone() is not None:
            self._chore("close", root, state.encode())
        if flow is not None:
            found = self.tx.run(sql("flow_add"), (flow, -1, 0)).fetchone()
            if found is not None and not found[1]:
                self._chore("retain", flow)

    def _chore(self, kind: str, key: bytes, note: bytes | None = None) -> None:
        self.tx.run(sql("chore_add"), (kind, key, note))

    def insert_later(self, parent: JobId, jobs: tuple[Job, ...]) -> None:
        """Writes down follow-ups that are more than a step may touch, a chore for each hundred."""
        for start in range(0, len(jobs), BATCH):
            self._chore("insert", parent, _encode(jobs[start : start + BATCH]))

    def start_flow(self, flow: JobId) -> None:
        """Starts a flow, once."""
        if self.tx.run(sql("flow_start"), (flow,)).fetchone() is not None:
            self._chore("start", flow)

    def keep_attempts(self, row: Row, attempts: Sequence[bytes]) -> None:
        """Keeps finished attempts. The caller saves the row."""
        row.noted = 1
        for data in attempts:
            self.tx.run(sql("attempt_add"), (row.seq, data))
        self.tx.run(sql("attempt_cut"), (row.seq, ATTEMPTS_KEPT))

    # ── chores ──────────────────────────────────────────────────────────────────────────────────────────

    def do_chores(self, limit: int) -> int:
        """Goes on with the oldest chores until about `limit` jobs were touched; how many were."""
        done = 0
        while done < limit:
            found = self.tx.run(sql("chore_next")).fetchone()
            if found is None:
                break
            chore, kind, key, at, note = found
            try:
                touched, at_now, finished = self._step(kind, key, at, note or b"", min(BATCH, limit - done))
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                log.warning("Chore %d (%s) is damaged (%s) and was set aside.", chore, kind, error)
                self.tx.run(sql("chore_set_aside"), (chore,))
                continue
            done += max(1, touched)
            if finished:
                self.tx.run(sql("chore_drop"), (chore,))
            else:
                self.tx.run(sql("chore_go_on"), (chore, at_now))
        return done

    def _step(self, kind: str, key: bytes, at: int, note: bytes, limit: int) -> tuple[int, int, bool]:
        """One step of a chore: how many jobs it touched, how far it has come, and whether it is done."""
        match kind:
            case "lane":
                return self.admit(key.decode()), at, True
            case "close":
                touched, finished = self._close(key, note.decode(), limit)
                return touched, at, finished
            case "insert":
                jobs = _jobs(note)
                chunk = jobs[at : at + limit]
                for job in chunk:
                    self.insert(job)
                return len(chunk), at + len(chunk), at + len(chunk) >= len(jobs)
            case _:
                return self._walk_flow(kind, key, at, limit)

    def _close(self, parent: JobId, state: str, limit: int) -> tuple[int, bool]:
        """Closes edges of an ended job: a child with none left goes on, or ends with its parent."""
        # One more than is done tells whether anything is left.
        found = self.tx.run(sql("edge_next"), (parent, limit + 1)).fetchall()
        for child, kind in found[:limit]:
            self.tx.run(sql("edge_drop"), (parent, child, kind))
            row = rows.by_seq(self.tx.connection, child)
            if row is None:
                continue
            row.open_edges -= 1
            if row.state != HELD:
                rows.save(self.tx.connection, row)
            elif not _satisfied(kind, state):
                self.end(row, State.CANCELLED.value, reason="parent")
            elif not row.open_edges and row.hold == Hold.PARENTS:
                self.place(row)
            else:
                rows.save(self.tx.connection, row)
        return min(len(found), limit), len(found) <= limit

    def _walk_flow(self, kind: str, flow: JobId, after: int, limit: int) -> tuple[int, int, bool]:
        """Starts a flow's waiting nodes, or, once it has ended, lets their retention begin."""
        found = self.tx.run(sql("flow_find"), (flow,)).fetchone()
        if found is None or (kind == "retain" and found[1]):
            return 0, after, True
        nodes = [Row(*columns) for columns in self.tx.run(sql("flow_next"), (flow, after, limit + 1)).fetchall()]
        chunk = nodes[:limit]
        for row in chunk:
            if kind == "start" and row.hold == Hold.FLOW:
                self.place(row)
            elif kind == "retain" and row.ended_us is not None and row.purge_us is None:
                row.purge_us = max(row.ended_us + row.keep_us, row.ukey_until_us or 0)
                rows.save(self.tx.connection, row)
        return len(chunk), chunk[-1].seq if chunk else after, len(nodes) <= limit


def kept_us(limits: Limits, state: str) -> int:
    """How long a record of that end is kept by default."""
    return {
        State.SUCCEEDED.value: limits.keep_succeeded_us,
        State.DEAD.value: limits.keep_dead_us,
        State.CANCELLED.value: limits.keep_cancelled_us,
    }.get(state, limits.keep_expired_us)


def _satisfied(kind: str, state: str) -> bool:
    return kind == "ended" or state == State.SUCCEEDED
