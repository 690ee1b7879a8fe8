"""The script runner: owns the scripts of a worker, and runs no user's code itself.

    the socket         claims come, ends and lines go, as with any runner
    pipes, and ends    of its scripts: what they say, and that they have ended
    ten times a second their time, their memory, how many processes they are, and what has escaped from them

One thread does all of it. So a child can be prepared between fork and exec, and the kernel ends it with this process.
"""

from __future__ import annotations

import os
import selectors
import socket
import subprocess
import time
from collections import deque
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, NoReturn

import msgspec

from windlass.app.options import NOTHING, read_travelling
from windlass.core.clock import SystemClock
from windlass.core.errors import CorruptRecord, WindlassError
from windlass.core.ids import WorkerId, show_id
from windlass.core.job import Outcome
from windlass.core.scripts import SCRIPT, Script, read_script
from windlass.core.system import adopt_orphans, outlive_parent, raise_file_limit
from windlass.engines.locks import ClaimLocks, Held
from windlass.engines.protocol import Claim, Note, Settlement
from windlass.worker.budget import memory_of
from windlass.worker.executor import SEND_AGAIN, Finding, cancelled, given_back, settlement, unstorable
from windlass.worker.failure import failure_of
from windlass.worker.frames import (
    CHUNK,
    Back,
    CancelJob,
    Ends,
    Frame,
    Hello,
    Key,
    Reader,
    Recall,
    Scripts,
    Stop,
    ToRunner,
    Welcome,
    Work,
    decode_to_runner,
    encode,
)
from windlass.worker.page import Page
from windlass.worker.scripts.child import Child, Order, Pipe
from windlass.worker.scripts.descent import Descent, Kin
from windlass.worker.scripts.ends import ended, last_line, refused
from windlass.worker.scripts.files import Found, Later, find, unstartable
from windlass.worker.service import log
from windlass.worker.spool import FLUSH_US, Spool, notes_of

LOOK_S: Final = 0.1
HURRY_S: Final = 0.005
"""How soon it looks again while something of an ended script still lives."""
GONE_US: Final = 5_000_000
"""How long what a script has started may take to be gone once it was killed."""
NET_US: Final = 10_000_000
"""How long after its last deadline a script is ended by the supervisor, together with this process: a net."""
AGAIN_US: Final = 1_000_000


def run_scripts(link: socket.socket, page: Page, welcome: Welcome, scripts: Scripts) -> None:
    """The whole life of the process from its welcome on."""
    adopt_orphans()
    outlive_parent()
    raise_file_limit()  # three for each script, and more while one is started
    runner = ScriptRunner(link, page, welcome, scripts)
    runner.send(Hello(settings=scripts.settings, tasks={SCRIPT: False}, slots={False: welcome.slots}))
    runner.run()


class ScriptRunner:
    """The scripts of one worker."""

    def __init__(self, link: socket.socket, page: Page, welcome: Welcome, scripts: Scripts) -> None:
        self._link = link
        self._link.setblocking(False)
        self._unsent = bytearray()
        self._leaving: list[Claim] = []
        """Whose ends are not all written yet."""
        self._page = page
        self._settings = scripts.settings
        self._folders = scripts.folders
        self._slots = welcome.slots
        self._worker_name = welcome.worker_name
        self._worker: WorkerId = b""
        self._locks = ClaimLocks(Path(scripts.locks)) if scripts.locks else None
        self._clock = SystemClock()
        self._reader = Reader(decode_to_runner)
        self._selector = selectors.DefaultSelector()
        self._selector.register(link, selectors.EVENT_READ, self._hear)
        self._waiting: deque[Claim] = deque()
        self._children: dict[Key, Child] = {}
        self._descent = Descent()
        self._look_at_us = self._flush_at_us = 0
        self._stopping = False

    # ── the loop ────────────────────────────────────────────────────────────────────────────────────────

    def run(self) -> None:
        """Until it is told to stop, and its last script has ended."""
        while not self._stopping or self._children or self._waiting or self._unsent:
            for key, _ in self._selector.select(self._pause_s()):
                key.data()
            now_us = self._clock.monotonic_us()
            self._page.look(now_us)
            if self._children or self._descent.has_strays:
                self._watch(now_us)
                self._flush(now_us)
            # One that has ended keeps its place on the page until its end is written.
            while self._waiting and len(self._children) + len(self._leaving) < self._slots:
                self._begin(self._waiting.popleft())

    def _pause_s(self) -> float | None:
        if any(child.ended_us for child in self._children.values()):
            return HURRY_S
        return LOOK_S if self._children or self._descent.has_strays else None

    def send(self, frame: Frame) -> None:
        """Returns at once, whether the supervisor reads or not: somebody has to watch the scripts."""
        self._unsent += encode(frame)
        self._write()

    def _write(self) -> None:
        try:
            del self._unsent[: self._link.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self._leave()
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
        if self._selector.get_key(self._link).events != wanted:
            self._selector.modify(self._link, wanted, self._hear)
        if not self._unsent:
            leaving, self._leaving = self._leaving, []
            for claim in leaving:
                self._page.leave(claim)

    # ── what the supervisor says ────────────────────────────────────────────────────────────────────────

    def _hear(self) -> None:
        if self._unsent:
            self._write()
        try:
            data = self._link.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        frames = self._reader.feed(data)
        if not data or self._reader.is_broken:
            self._leave()
        for frame in frames:
            self._obey(frame)

    def _obey(self, frame: ToRunner) -> None:
        match frame:
            case Work():
                self._worker = frame.worker
                self._page.expect(frame.claims, frame.epoch)
                self._waiting.extend(frame.claims)
            case CancelJob():
                self._cancel(frame)
            case Recall():
                back, self._waiting = self._waiting, deque()
                for claim in back:
                    self._page.leave(claim)
                self.send(Back(tuple((claim.id, claim.fence) for claim in back)))
            case Stop():
                self._stopping = True
            case _:
                pass  # for those that have an app

    def _cancel(self, frame: CancelJob) -> None:
        for child in self._children.values():
            if child.claim.id == frame.job:
                child.ask("cancel", self._clock.monotonic_us())
        for claim in [claim for claim in self._waiting if claim.id == frame.job]:
            self._waiting.remove(claim)
            self._settle(claim, cancelled(claim))

    def _leave(self) -> NoReturn:
        """The supervisor is dead, and this process too once nothing of its scripts lives: others may run them then."""
        until_us = self._clock.monotonic_us() + GONE_US
        while self._clock.monotonic_us() < until_us:
            kin = self._look()
            for child in self._children.values():
                child.kill("cut", kin[child.pid])
            if not self._descent.has_strays and not any(here.living for here in kin.values()):
                break
            time.sleep(HURRY_S)
        os._exit(1)

    def _look(self) -> dict[int, Kin]:
        return self._descent.look({child.pid: child.job for child in self._children.values()})

    # ── a start ─────────────────────────────────────────────────────────────────────────────────────────

    def _begin(self, claim: Claim) -> None:
        if self._page.is_cut(self._clock.monotonic_us()):
            self._settle(claim, given_back(claim))
            return
        script = None
        try:
            order = self._order(claim)
            script = order.script
            child = self._start(order)
        except Later as later:
            log.warning("The script of job %s cannot be started now: %s.", show_id(claim.id), later)
            self._settle(claim, settlement(claim, _LATER, 0, None, None))
        except WindlassError as error:
            self._refuse(claim, script, error)
        else:
            if child is not None:
                self._children[child.key] = child
                self._listen_to(child)

    def _refuse(self, claim: Claim, script: Script | None, error: WindlassError) -> None:
        spool = Spool()
        self._tell_begin(spool, claim, script, "")
        spool.add("", self._clock.now_us(), f"Refused: {error}")
        notes = tuple(notes_of((claim.id, claim.fence), spool, self._settings.limits))
        self._settle(claim, refused(claim, error, self._settings, script.path if script is not None else ""), notes)

    def _tell_begin(self, spool: Spool, claim: Claim, script: Script | None, where: str) -> None:
        if script is not None and script.by and claim.attempt == 1 and not claim.crashes and not claim.losses:
            spool.add("", script.sent_us or self._clock.now_us(), f"Created by {script.by}.")
        if claim.losses:
            spool.add("", self._clock.now_us(), "It runs again, for its last worker has died.")
        spool.add("", self._clock.now_us(), f"Picked up by worker {self._worker_name}{where}.")

    def _order(self, claim: Claim) -> Order:
        try:
            said = read_travelling(claim.options) if claim.options else NOTHING
        except msgspec.MsgspecError as error:
            raise CorruptRecord(f"The job's options cannot be read: {error}.", SEND_AGAIN) from None
        script = read_script(claim.payload, self._settings.limits)
        retry = None if said.retry is None else said.retry.policy()
        return Order(claim, script, said, memory_of(claim) or self._settings.script_memory_bytes, retry)

    def _start(self, order: Order) -> Child | None:
        """The script, running; None: it must not run here any more."""
        found = find(order.script.path, self._folders)
        try:
            return self._start_opened(order, found)
        finally:
            os.close(found.descriptor)

    def _start_opened(self, order: Order, found: Found) -> Child | None:
        claim, started_us = order.claim, self._clock.monotonic_us()
        last_us = 0 if order.timeout_us is None else order.timeout_us + order.grace_us + NET_US
        net_us = started_us + last_us if last_us else 0
        with ExitStack() as undo:
            lock = self._lock(claim, last_us)
            if lock is not None:
                undo.callback(lock.release)
            if not self._page.mark(claim, started_us, net_us, net_us):
                self._settle(claim, given_back(claim))
                return None
            try:
                child = Child(order, found, self._settings, lock, self._clock.now_us)
            except (OSError, subprocess.SubprocessError) as error:
                raise unstartable(found, error) from None
            undo.pop_all()
        child.started_us = started_us
        self._tell_begin(child.spool, claim, order.script, f", process {child.pid}")
        return child

    def _lock(self, claim: Claim, last_us: int) -> Held | None:
        """What says that the script lives, even when nobody is left to say so; None: the store heeds no such thing."""
        if self._locks is None:
            return None
        try:
            now_us = self._clock.now_us()
            held = self._locks.hold(self._worker, claim.id, now_us + last_us if last_us else None, now_us)
        except OSError as error:
            raise Later(f"its lock cannot be had ({error.strerror})") from None
        if held is None:
            raise Later("its last run has not ended yet")
        return held

    # ── what it says ────────────────────────────────────────────────────────────────────────────────────

    def _listen_to(self, child: Child) -> None:
        if child.end is not None:
            self._selector.register(child.end, selectors.EVENT_READ, _nothing)
        for pipe in child.pipes:
            self._register(child, pipe)

    def _register(self, child: Child, pipe: Pipe) -> None:
        def listen() -> None:
            child.listen(pipe)
            if not pipe.is_open:
                self._selector.unregister(pipe.descriptor)

        self._selector.register(pipe.descriptor, selectors.EVENT_READ, listen)

    def _flush(self, now_us: int) -> None:
        """What scripts have said goes to the store, a few times a second, and then they may say more."""
        if now_us < self._flush_at_us or len(self._unsent) > CHUNK:
            return  # what is not read loses its middle, not its beginning
        self._flush_at_us = now_us + FLUSH_US
        notes: list[Note] = []
        for child in self._children.values():
            notes += notes_of(child.key, child.spool, self._settings.limits)
            for pipe in child.pipes:
                pipe.came = 0
                if pipe.is_open and pipe.descriptor not in self._selector.get_map():
                    self._register(child, pipe)
        if notes:
            self.send(Ends((), tuple(notes)))

    # ── its bounds and its end ──────────────────────────────────────────────────────────────────────────

    def _watch(self, now_us: int) -> None:
        children = list(self._children.values())
        for child in children:
            if child.look(now_us) and child.end is not None:
                self._selector.unregister(child.end)  # or it would wake us all the time
        over = any(child.ended_us for child in children)
        if not over and now_us < self._look_at_us:
            return
        self._look_at_us = now_us + int(LOOK_S * 1e6)
        kin = self._look()
        is_cut = self._page.is_cut(now_us)
        for child in children:
            here = kin[child.pid]
            if child.ended_us:
                self._bury(child, here, now_us)
                continue
            child.weigh(here, self._settings.script_processes)
            child.keep_time(here, now_us)
            if is_cut and child.claim.lane is not None:
                child.ask("cut", now_us)

    def _bury(self, child: Child, kin: Kin, now_us: int) -> None:
        """Whatever it has started ends with it, wherever that has gone; then its last words, and its end."""
        child.kill(None, kin)
        left = [pid for pid in kin.living if pid != child.pid]
        child.left_behind = max(child.left_behind, len(left))
        if (left or kin.has_strays) and now_us < child.ended_us + GONE_US:
            return
        gone = not left and not kin.has_strays
        if not gone:
            log.warning("What the script of job %s has started cannot be killed: %s.", child.job, left or "it forks on")
        child.hear_last_words()
        for pipe in child.pipes:
            with suppress(KeyError, ValueError):
                self._selector.unregister(pipe.descriptor)
        code = child.reap()
        child.spool.add("", self._clock.now_us(), last_line(child, code))
        del self._children[child.key]
        notes = tuple(notes_of(child.key, child.spool, self._settings.limits))
        self._settle(child.claim, ended(child, code, self._settings), notes)
        if child.lock is not None:
            child.lock.release() if gone else child.lock.leave()
        self._descent.has_strays = True  # what it left behind has ended, and is reaped with the next look

    def _settle(self, claim: Claim, end: Settlement, notes: tuple[Note, ...] = ()) -> None:
        self._leaving.append(claim)  # it leaves the page when its end is written
        try:
            self.send(Ends((end,), notes))
        except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
            log.error("The end of job %s cannot be stored.", show_id(claim.id), exc_info=error)
            self.send(Ends((unstorable(claim, failure_of(error, self._settings.limits, claim.task)),)))


_LATER: Final = Finding(Outcome.SNOOZE, None, AGAIN_US)


def _nothing() -> None:
    """It is woken, and looks at all of them."""
