"""The redis engine: sixteen verbs, each one script that happens whole or not at all.

What is too much for one script (a hundred jobs, about a millisecond) goes in several, each of which leaves the store
right. Every verb may be repeated after a lost answer but three: what `note`, `write` and `amend` did is not told apart
from what they would do again, so those are sent a second time only where the first cannot have arrived.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from windlass.core.clock import Clock, SystemClock
from windlass.core.errors import StoreClosed, StoreFull
from windlass.core.ids import JobId
from windlass.core.intake import check_jobs
from windlass.core.job import Job
from windlass.core.lifecycle import why_not
from windlass.core.limits import Limits
from windlass.core.plural import number_of
from windlass.engines.checks import (
    check_amendment,
    check_beat,
    check_ids,
    check_notes,
    check_order,
    check_puts,
    check_query,
    check_settlements,
    flow_of,
    is_gate,
)
from windlass.engines.findings import Finding, Level, tell
from windlass.engines.looked import Looked
from windlass.engines.protocol import (
    ALL_PARTS,
    BATCH,
    HISTORY_KEPT,
    SPANS_US,
    Amended,
    Amendment,
    Beat,
    Capabilities,
    Claims,
    Fact,
    Hint,
    Interest,
    Note,
    Opened,
    Order,
    Orders,
    Page,
    Part,
    Poisoned,
    Put,
    Query,
    Receipt,
    Refusal,
    Settlement,
    Sweep,
    Swept,
    Tally,
    TallyQuery,
    Verdict,
    Written,
)
from windlass.engines.redis import keymap, search
from windlass.engines.redis.address import Address
from windlass.engines.redis.commands import commands
from windlass.engines.redis.examine import admit, examine, look
from windlass.engines.redis.glance import Glance
from windlass.engines.redis.identity import identity
from windlass.engines.redis.link import Link
from windlass.engines.redis.listen import Listeners
from windlass.engines.redis.refusals import Refused
from windlass.engines.redis.requests import pack_job
from windlass.engines.redis.rows import (
    STATES,
)
from windlass.engines.redis.scripts import script
from windlass.engines.redis.told import told
from windlass.engines.redis.values import (
    added,
    chunks,
    pack_limits,
    pack_rule,
    pack_settlement,
    pairs,
    read_bucket,
    read_card,
    read_claim,
    read_count,
    read_death,
    read_found,
    weight,
    why_refused,
)

log = logging.getLogger(__name__)

SCHEMA: Final = 1
CLOCK_BEHIND_US: Final = 60_000_000
LATE: Final = 1.2
"""Of the pause between sweeps: for so long one of another worker serves."""
MOST_SWEPT: Final = 10_000
"""The most one sweep touches, whatever is asked for."""

_pack = msgspec.msgpack.Encoder().encode
_VERDICTS = {verdict.value.encode(): verdict for verdict in Verdict}


class RedisEngine:
    """Jobs on a Redis or Valkey server, under one namespace."""

    capabilities = Capabilities(name="redis", settle="atomic", death="lease", durable="server", processes=True)

    def __init__(self, address: Address, limits: Limits | None = None) -> None:
        self._address = address
        self._limits = limits or Limits()
        self._clock: Clock = SystemClock()
        self._link: Link | None = None
        self._listeners: Listeners | None = None
        self._packed_limits = pack_limits(self._limits)
        self._lock = threading.Lock()
        self._is_new = False
        """Whether the server is another one than the one that was examined, or was restarted since."""
        self._id: bytes | None = None
        self._looked = Looked()
        self._glance: Glance | None = None
        self._judged_us: int | None = None
        """When a worker that may judge had last swept, as this one was told at its own last sweep."""

    # ── open and close ──────────────────────────────────────────────────────────────────────────────────

    def open(self) -> Opened:
        if self._link is not None:
            return Opened(schema=SCHEMA)
        link = Link(self._address)
        try:
            notices = [*self._admit(link)]
            keys = [part for pair in keymap.FIXED.items() for part in pair]
            schema, ahead_us = self._run_on(link, "open", keys, repeat=True)
            self._id = identity(link)
        except BaseException:
            link.close()
            raise
        if int(ahead_us) > CLOCK_BEHIND_US:
            notices.append(f"The server's clock is {int(ahead_us) // 1_000_000} s behind the store's own count.")
            log.warning("%s", notices[-1])
        link.on_new_server(self._meet)
        self._glance = Glance(link)
        self._listeners = Listeners(link, self._run, self._glance)
        self._link = link
        return Opened(schema=int(schema), notices=tuple(notices))

    def _admit(self, link: Link) -> tuple[str, ...]:
        """Refuses a server that cannot be trusted with jobs; what people should know of one that can."""
        findings = self._findings(link)
        notices, store = admit(findings), f"{self._address} {self._address.namespace}"
        for notice in notices:
            tell(logging.WARNING, store, notice)
        for finding in findings:
            if finding.level is Level.OK and finding.name in {"durability", "failover"}:
                tell(logging.INFO, store, finding.said)
        return notices

    def _findings(self, link: Link) -> list[Finding]:
        return list(examine(look(link, commands()), self._address))

    def examine(self) -> list[Finding]:
        """What there is to say about the server, for the doctor."""
        return self._findings(self._opened())

    def _meet(self) -> None:
        """The next call finds another server than the last: it is examined first."""
        self._is_new = True

    def _examine_again(self, link: Link) -> None:
        with self._lock:
            if not self._is_new:
                return
            self._admit(link)
            if not self._is_emptied(link):
                log.warning(
                    "%s was restarted, or another server took over. Of what was acknowledged just before some may be "
                    "missing: `windlass doctor` says what its settings promise.",
                    self._address,
                )
            self._is_new = False

    def _is_emptied(self, link: Link) -> bool:
        """Whether this is not the store that was opened, which is told once."""
        before, self._id = self._id, identity(link)
        if before is None or before == self._id:
            return False
        log.warning(
            "The namespace %s of %s was emptied: somebody has removed its keys (FLUSHALL?), or the server came back "
            "without its data. All jobs and results that were there are gone. Workers take what is sent from now on: "
            "send again what is missing, or restore a backup.",
            self._address.namespace,
            self._address,
        )
        return True

    def close(self) -> None:
        link, self._link = self._link, None
        listeners, self._listeners = self._listeners, None
        if link is not None:
            if listeners is not None:
                listeners.close()
            link.close()

    def _opened(self) -> Link:
        if self._link is None:
            raise StoreClosed("The redis engine is not open.", "Call open() first.")
        return self._link

    def _listening(self) -> Listeners:
        if self._listeners is None:
            raise StoreClosed("The redis engine is not open.", "Call open() first.")
        return self._listeners

    # ── scripts ─────────────────────────────────────────────────────────────────────────────────────────

    def _run(self, verb: str, args: Sequence[bytes | str | int], *, repeat: bool = True) -> Any:
        link = self._opened()
        if self._is_new:
            self._examine_again(link)
        return self._run_on(link, verb, args, repeat=repeat)

    def _run_on(self, link: Link, verb: str, args: Sequence[bytes | str | int], *, repeat: bool) -> Any:
        try:
            return link.run(script(verb), [self._now(), SCHEMA, *args], repeat=repeat)
        except Refused as refused:
            raise told(refused, self._address) from None

    def _now(self) -> str | int:
        """Nothing in production, where the server's clock counts; tests travel."""
        return "" if type(self._clock) is SystemClock else self._clock.now_us()

    # ── jobs ────────────────────────────────────────────────────────────────────────────────────────────

    def insert(self, jobs: Sequence[Job], /) -> list[Receipt]:
        check_jobs(jobs, self._limits)
        self._opened()
        receipts: list[Receipt] = []
        steps = list(chunks(jobs, weight))
        if len(steps) > 1:
            self._look_for_parents(jobs)
        for some in steps:
            args = [part for job in some for part in pack_job(job)]
            try:
                answers = self._run("insert", [self._packed_limits, int(len(steps) > 1), *args])
            except StoreFull as full:
                if not receipts:
                    raise
                raise StoreFull(
                    f"{self._address} is out of memory: the first {len(receipts):,} of {number_of(len(jobs))} were "
                    "stored, and no other.",
                    f"{full.todo} Then send the others.",
                ) from None
            receipts += [
                Receipt(id=job.request.id, duplicate_of=there or None) for job, there in zip(some, answers, strict=True)
            ]
        return receipts

    def _look_for_parents(self, jobs: Sequence[Job]) -> None:
        """Refuses a job whose parent nobody knows before the first of many is written."""
        coming = {job.request.id for job in jobs}
        waiting = [job for job in jobs if any(edge.parent not in coming for edge in job.request.parents)]
        for some in chunks(waiting, weight):
            args: list[bytes] = []
            for job in some:
                known = tuple(edge for edge in job.request.parents if edge.parent not in coming)
                alone = msgspec.structs.replace(job, request=msgspec.structs.replace(job.request, parents=known))
                args += pack_job(alone)[1:3]
            self._run("parents", args)

    def claim(self, order: Order, /) -> Claims:
        check_order(order)
        asked = _pack(
            (
                order.worker.hex(),
                order.ticket,
                1 if order.suspects else min(order.limit, BATCH),
                int(order.suspects),
                False if order.queues is None else order.queues,
                False if order.tasks is None else sorted(order.tasks),
                order.free,
                order.total,
            )
        )
        wait_us, version, *found = self._run("claim", [self._packed_limits, asked])
        if not order.suspects:
            # Who looked for suspects has seen none of the others: listening must not take them for seen.
            self._looked.claimed(order.worker, version)
        claims = tuple(filter(None, map(read_claim, found[::3], found[1::3], found[2::3])))
        if 3 * len(claims) < len(found):
            wait_us = 0  # in place of those that cannot be read there may be others
        return Claims(claims=claims, wait_us=None if wait_us < 0 else wait_us)

    def settle(self, settlements: Sequence[Settlement], /) -> list[Verdict]:
        check_settlements(settlements, self._limits)
        self._opened()
        verdicts: list[Verdict] = []
        for some in chunks(settlements, lambda settlement: 1 + sum(map(weight, settlement.follow_ups))):
            args = [part for settlement in some for part in pack_settlement(settlement)]
            verdicts += [_VERDICTS[said] for said in self._run("settle", [self._packed_limits, *args])]
        return verdicts

    def renew(self, beat: Beat, /) -> Orders:
        check_beat(beat)
        self._opened().serve_as("worker")
        card = beat.card
        deltas: list[object] = []
        for delta in beat.deltas:
            deltas += [f"{delta.queue}|{delta.task}|{delta.name}", delta.n]
        spans = list(SPANS_US.items())
        head = (card.worker.hex(), beat.beat, card.lease_us, int(card.tasks is None), int(beat.bye), deltas, spans)
        gone, now_us, *rest = self._run("renew", [_pack(head), msgspec.json.encode(card), *(card.tasks or ())])
        if gone or beat.bye:
            self._looked.forget(card.worker)
            self._listening().forget(card.worker)
        else:
            self._listening().serve(card.worker)
        if gone:
            self._is_emptied(self._opened())
            return Orders(gone=True, now_us=int(now_us))
        claims, command, *cancel = rest
        return Orders(now_us=int(now_us), claims=claims, cancel=tuple(cancel), command=command)

    def note(self, notes: Sequence[Note], /) -> list[Verdict]:
        check_notes(notes, self._limits)
        self._opened()
        verdicts: list[Verdict] = []
        for some in chunks(notes):
            args: list[bytes | str | int] = [self._packed_limits]
            for entry in some:
                args += [entry.id, str(entry.fence), entry.kind, entry.data, entry.key, entry.stream, entry.at_us]
            verdicts += [_VERDICTS[said] for said in self._run("note", args, repeat=False)]
        return verdicts

    def sweep(self, sweep_: Sweep, /) -> Swept:
        self._opened()
        if sweep_.rest_us and self._is_swept(sweep_.rest_us):
            return Swept()
        left = min(sweep_.limit, MOST_SWEPT)
        swept = Swept()
        while True:
            step = self._sweep(sweep_, min(left, BATCH))
            swept = added(swept, step)
            left -= step.lost + step.chores + step.due + step.expired + step.keys + step.purged
            if left <= 0 or not step.more:
                return swept

    def _is_swept(self, rest_us: int) -> bool:
        """Whether another worker, one that may judge, has just swept; else the script says."""
        assert self._glance is not None
        kept = self._glance.look().succeeded
        is_others = self._judged_us is not None and self._glance.has_judged(self._judged_us, LATE * rest_us / 1e6)
        return is_others and kept <= self._limits.keep_succeeded_count

    def _sweep(self, sweep_: Sweep, limit: int) -> Swept:
        kept = [(span, HISTORY_KEPT[span] * size_us) for span, size_us in SPANS_US.items()]
        asked = _pack(("" if sweep_.worker is None else sweep_.worker.hex(), limit, kept, sweep_.rest_us))
        *counts, more, deaths, poisoned, judged = self._run("sweep", [self._packed_limits, asked])
        self._judged_us = int(judged)
        return Swept(
            **dict(zip(("workers", "lost", "chores", "due", "expired", "keys", "purged"), counts, strict=True)),
            more=bool(more),
            deaths=tuple(read_death(read_card(card), jobs) for card, jobs in deaths),
            poisoned=tuple(Poisoned(id=id_, task=task.decode(), crashes=n) for id_, task, n in poisoned),
        )

    # ── looking and steering ────────────────────────────────────────────────────────────────────────────

    def fetch(
        self, ids: Sequence[JobId], /, parts: frozenset[Part] = ALL_PARTS, log_after: int = 0
    ) -> list[Job | None]:
        check_ids(ids)
        self._opened()
        wanted = _pack([int(part in parts) for part in Part])
        jobs: list[Job | None] = []
        for some in chunks(ids):
            now_us, *found = self._run("fetch", [wanted, *some])
            jobs += [
                None if parts_ is None else read_found(job_id, parts_, log_after, int(now_us))
                for job_id, parts_ in zip(some, found, strict=True)
            ]
        return jobs

    def search(self, query: Query, /) -> Page:
        check_query(query)
        return search.search(self._run, query)

    def amend(self, amendment: Amendment, /) -> Amended:
        check_amendment(amendment)
        ids, cursor, only = amendment.ids, None, amendment.state
        if amendment.query is not None:
            query = msgspec.structs.replace(amendment.query, limit=min(amendment.query.limit, BATCH), count=False)
            page = search.search(self._run, query)
            ids, cursor = tuple(job.id for job in page.jobs), page.cursor
            # What was found may have moved on since: only what is still in the state that was asked for is changed.
            only = only or query.state
        may = [number for state, number in STATES.items() if why_not(state, amendment.change, only) is None]
        head = _pack((amendment.change.value, may, amendment.reason or ""))
        answers = self._run("amend", [self._packed_limits, head, *ids], repeat=False)
        changed: list[JobId] = []
        refused: list[Refusal] = []
        for job_id, answer in zip(ids, answers, strict=True):
            if answer == 0:
                changed.append(job_id)
            else:
                refused.append(Refusal(id=job_id, why=why_refused(answer, amendment.change, only)))
        return Amended(changed=tuple(changed), refused=tuple(refused), cursor=cursor)

    def tally(self, query: TallyQuery, /) -> Tally:
        counters, cards, buckets, go_on = self._run("tally", [query.span or "", query.since_us])
        while go_on:
            _, _, more, go_on = self._run("tally", [query.span or "", go_on])
            buckets += more
        return Tally(
            counts=tuple(read_count(key, n) for key, n in pairs(counters)),
            buckets=tuple(read_bucket(int(start), key, n) for start, found in buckets for key, n in pairs(found)),
            cards=tuple(read_card(card) for card in cards),
        )

    # ── facts and hints ─────────────────────────────────────────────────────────────────────────────────

    def read(self, keys: Sequence[str], /) -> list[Fact | None]:
        answers = self._run("read", keys)
        return [
            None
            if answer is None
            else Fact(key=key, value=answer[0], version=int(answer[1]), expires_us=int(answer[2]) or None)
            for key, answer in zip(keys, answers, strict=True)
        ]

    def write(self, puts: Sequence[Put], /) -> list[Written]:
        check_puts(puts, self._limits)
        args: list[bytes | str | int] = [self._packed_limits]
        for put in puts:
            args += [
                put.key,
                b"" if put.value is None else b"=" + put.value,
                "" if put.expect is None else put.expect,
                "" if put.ttl_us is None else put.ttl_us,
                b"" if put.value is None or not is_gate(put.key) else pack_rule(put.value),
                "" if put.value is None else (flow_of(put.key) or b"").hex(),
            ]
        return [
            Written(done=bool(done), version=int(version)) for done, version in self._run("write", args, repeat=False)
        ]

    def listen(self, interest: Interest, timeout_s: float, /) -> list[Hint]:
        looked = self._looked.at(interest)
        return self._listening().listen(interest, -1 if looked is None else looked, timeout_s)

    def signal(self, hints: Sequence[Hint], /) -> None:
        self._opened()
        args: list[bytes | str | int] = []
        for hint in hints:
            if hint.kind == "work":
                args += ["work", hint.queue or ""]
            elif hint.kind == "end":
                args += ["end", hint.id or b""]
            elif hint.kind == "order":
                args += ["order", (hint.id or b"").hex()]
        if args:
            self._run("signal", args)
