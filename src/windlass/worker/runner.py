"""A runner: a process that runs tasks and nothing else. `python -m windlass.worker.runner SOCKET PAGE`.

It has no claim on anything: its supervisor claims, settles and watches. What a slot has ended is written to the ring
before the slot's next job starts. When the socket ends, the supervisor has died, and so does the runner, at once.
"""

from __future__ import annotations

import importlib
import os
import socket
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import NoReturn

import msgspec

from windlass import __version__
from windlass.app.app import App
from windlass.app.endings import TimedOut
from windlass.app.locate import load
from windlass.core.clock import SystemClock
from windlass.core.errors import BadValue, OtherVersion, WindlassError
from windlass.core.ids import WorkerId, show_id
from windlass.core.limits import Limits
from windlass.core.system import die_with_parent, ending_signals, leave_unheeded, set_title
from windlass.engines import findings
from windlass.engines.protocol import Claim, Note, Settlement
from windlass.observe import logs
from windlass.worker.budget import memory_of
from windlass.worker.deaths import over_memory
from windlass.worker.desk import Desk
from windlass.worker.executor import unstorable
from windlass.worker.failure import OURS, failure_of
from windlass.worker.frames import (
    CHUNK,
    TOLD,
    Answers,
    Back,
    CancelJob,
    Ends,
    Frame,
    Hello,
    Judge,
    Key,
    News,
    Overran,
    Reader,
    Recall,
    Rung,
    Stop,
    ToRunner,
    Unfit,
    Welcome,
    Work,
    decode_to_runner,
    encode,
    encode_alone,
)
from windlass.worker.in_process import InProcess, check_fit
from windlass.worker.kind import Kind, as_kind
from windlass.worker.notes import DROPPED, MOST_NOTES
from windlass.worker.page import Page, share
from windlass.worker.ring import Ring
from windlass.worker.service import Bell, log
from windlass.worker.staff import End

STOP_S = 5.0
"""How long slots without a task may take to end."""


class Line:
    """The runner's end of the socket. Any thread may write; one reads."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.ring: Ring | None = None
        self._writing = threading.Lock()
        self._reader = Reader(decode_to_runner)
        self._came: deque[ToRunner] = deque()

    def send(self, frame: Frame) -> None:
        data = encode(frame)
        try:
            with self._writing:
                self.link.sendall(data)
        except OSError:
            _leave()

    def put(self, ends: Ends) -> None:
        """Sends what has ended, by the ring: one thread at a time."""
        assert self.ring is not None
        self.ring.put(encode_alone(ends), self._wake)

    def _wake(self) -> None:
        self.send(Rung())

    def next(self) -> ToRunner:
        """The next frame; where there is none any more, the supervisor has gone and so does this process."""
        while not self._came:
            try:
                data = self.link.recv(CHUNK)
            except OSError:
                data = b""
            if not data or self._reader.is_broken:
                _leave()
            self._came.extend(self._reader.feed(data))
        return self._came.popleft()


def _leave() -> NoReturn:
    """The supervisor is dead: whatever runs here is somebody else's now."""
    os._exit(1)


class Runner:
    """The office of a runner: hands everything on to its supervisor."""

    def __init__(self, line: Line, page: Page, limits: Limits) -> None:
        self.desk = Desk()
        self.page = page
        self._line = line
        self._limits = limits
        self._worker: WorkerId = b""
        self._notes: deque[Note] = deque()
        self._dropped = 0
        self._sending = threading.Lock()
        self._bell = Bell()
        self._unanswered: dict[Key, Settlement] = {}
        self._errands: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._done = threading.Event()
        self.keeps_ends = False
        """Whether somebody wants the store's answers to them."""
        self.doubts_ends = False
        """Whether hooks may have made something of them that cannot be stored."""

    # ── what the staff asks for ─────────────────────────────────────────────────────────────────────────

    def worker(self) -> WorkerId:
        return self._worker

    def settle(self, ends: Sequence[End]) -> None:
        for settlement, claim in ends:
            self._settle(settlement, claim)

    def _settle(self, settlement: Settlement, claim: Claim) -> None:
        self.desk.let_go(claim.id)
        with self._sending:  # lines go before the end, which closes the job's record
            notes = self._take_notes()
            try:
                self._hand_over(settlement, notes)
            except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
                # What a task or a hook has spoilt must cost its own job only.
                log.error("The end of job %s cannot be stored.", show_id(claim.id), exc_info=error)
                self._hand_over(unstorable(claim, failure_of(error, self._limits, claim.task)), notes)

    def _hand_over(self, end: Settlement, notes: tuple[Note, ...]) -> None:
        if self.doubts_ends:
            msgspec.msgpack.decode(msgspec.msgpack.encode(end), type=Settlement)
        if self.keeps_ends:  # before it is sent: the answer may come at once
            self._unanswered[end.id, end.fence] = end
        self._line.put(Ends((end,), notes))

    def give_back(self, claims: Sequence[Claim]) -> None:
        if claims:
            for claim in claims:
                self.desk.let_go(claim.id)
                self.page.leave(claim)
            self._line.send(Back(tuple((claim.id, claim.fence) for claim in claims)))

    def note(self, note: Note) -> None:
        """From inside a task: nothing here may be interrupted halfway, so another thread sends it."""
        if len(self._notes) < MOST_NOTES:
            self._notes.append(note)
        else:
            self._dropped += 1
        self._bell.ring()

    def overran(self, claim: Claim) -> None:
        self._line.send(Overran((claim.id, claim.fence)))

    def is_cut(self, now_us: int) -> bool:
        return self.page.is_cut(now_us)

    def hungry(self) -> None:
        """The supervisor sees by the ends that there is room."""

    def expect_a_suspect(self) -> None:
        """A runner has no place apart."""

    # ── lines ───────────────────────────────────────────────────────────────────────────────────────────

    def _take_notes(self) -> tuple[Note, ...]:
        notes = self._notes
        return tuple(notes.popleft() for _ in range(len(notes))) if notes else ()

    def send_notes(self) -> None:
        """For ever: what a task has said is sent while it goes on."""
        while True:
            self._bell.wait()
            with self._sending:
                notes = self._take_notes()
                if notes:
                    self._line.put(Ends((), notes))
            if self._dropped:
                dropped, self._dropped = self._dropped, 0
                log.warning(DROPPED, dropped)

    # ── the user's code that is no task ─────────────────────────────────────────────────────────────────

    def run_errands(self) -> None:
        """For ever: hooks, subscribers and policies, in a thread where they keep nobody from listening."""
        while (errand := self._errands.get()) is not None:
            try:
                errand()
            except BaseException:
                log.exception("A hook, a subscriber or a retry policy failed.")
        self._done.set()

    def finish_errands(self, timeout_s: float) -> None:
        """Returns when the last one is done, or after so long."""
        self._errands.put(None)
        self._done.wait(timeout_s)

    # ── what the supervisor says ────────────────────────────────────────────────────────────────────────

    def obey(self, frame: ToRunner, staff: InProcess, app: App) -> bool:
        """Does as it was told; False: it is to stop."""
        match frame:
            case Work():
                self._worker = frame.worker
                self.page.expect(frame.claims, frame.epoch)
                self.desk.take_in(frame.claims)
                staff.put(frame.claims)
            case CancelJob():
                self.desk.cancel(frame.job)
            case Recall():
                self.give_back(staff.take_back())
            case Answers():
                for job, fence, verdict in frame.answers:
                    settlement = self._unanswered.pop((job, fence), None)
                    if settlement is not None:
                        self._errands.put(partial(staff.answered, settlement, verdict))
            case News():
                event = msgspec.msgpack.decode(frame.event, type=TOLD[frame.name])
                self._errands.put(partial(app.bus.publish, event))
            case Judge():
                self._errands.put(partial(_judge, frame, staff))
            case Stop():
                return False
            case Welcome():
                pass  # it was said once
        return True


# ── the process ─────────────────────────────────────────────────────────────────────────────────────────


def main(link: int, page: int, parent: int, version: str) -> None:
    """From the first to the last moment of the process; `version` is the supervisor's."""
    die_with_parent(parent)
    # Whoever ends a whole group or a container means the supervisor, which lets tasks end first.
    leave_unheeded(ending_signals())
    os.set_inheritable(link, False)  # what tasks start must not keep it open
    line = Line(socket.socket(fileno=link))
    set_title("windlass: spare runner")
    welcome = line.next()
    assert isinstance(welcome, Welcome)
    what = "scripts" if welcome.scripts is not None else f"runner {welcome.number}"
    set_title(f"windlass: {what} of {welcome.worker_name}")
    logs.set_up(welcome.level, welcome.form, welcome.file)
    findings.log.disabled = True  # the supervisor has said it
    try:
        if version != __version__:
            raise OtherVersion(
                f"Windlass {__version__} is installed now, and the worker was started with {version}.",
                "Restart the worker itself.",
            )
        if welcome.scripts is not None:
            from windlass.worker.scripts.runner import run_scripts

            run_scripts(line.link, share(page, welcome.places)[0], welcome, welcome.scripts)
            return
        app = load(welcome.app)
        if not app.tasks:
            raise BadValue(f"The app in {welcome.app} has no tasks.", "Decorate a function there: @app.task")
        kind = as_kind(welcome.kind)
        check_fit(app, kind)
        places, line.ring = share(page, welcome.places)
        runner = Runner(line, places, app.limits)
        os.close(page)
        staff = InProcess(app, kind, welcome.slots, runner, SystemClock(), others=welcome.others)
        staff.start()
    except BaseException as error:  # SystemExit of a module too
        line.send(_unfit(error))
        return
    runner.keeps_ends = bool(app.stack.after_settle)
    runner.doubts_ends = bool(app.stack.before_settle)
    for loop in (runner.send_notes, runner.run_errands):
        threading.Thread(target=loop, name=f"windlass-{loop.__name__}", daemon=True).start()
    line.send(_hello(app, staff, kind, welcome.slots))
    while runner.obey(line.next(), staff, app):
        pass
    runner.finish_errands(STOP_S)
    staff.stop(STOP_S)
    staff.close()
    app.close()


def _hello(app: App, staff: InProcess, kind: Kind, slots: int) -> Hello:
    names = staff.tasks()
    kinds = {app.tasks[name].is_async for name in names} if kind == "auto" else {kind == "aio"}
    return Hello(
        settings=app.settings,
        tasks={name: app.tasks[name].is_async for name in names},
        slots=dict.fromkeys(kinds, slots),
        dead_queues={name: queue for name in names if (queue := app.tasks[name].options.dead_queue) is not None},
        events=tuple(name for name, event in TOLD.items() if app.bus.wanted(event)),
        verdicts=bool(app.stack.after_settle),
    )


def _unfit(error: BaseException) -> Unfit:
    if isinstance(error, WindlassError):
        return Unfit(error.message, error.todo, code=error.code)
    frames = error.__traceback__
    while frames is not None and _is_before_the_app(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    lines = traceback.format_exception(type(error), error, frames)
    return Unfit(f"{type(error).__qualname__}: {error}", traceback="".join(lines))


def _is_before_the_app(filename: str) -> bool:
    return filename.startswith((OURS, "<frozen importlib", importlib.__file__))


def _judge(frame: Judge, staff: InProcess) -> None:
    staff.settle(_judged(frame, staff), frame.claim)


def _judged(frame: Judge, staff: InProcess) -> Settlement:
    """What becomes of a job whose process was killed for its sake."""
    executor, claim = staff.executor, frame.claim
    error = TimedOut() if frame.why == "timeout" else over_memory(frame.used, memory_of(claim) or 0)
    try:
        run = executor.load(claim, SystemClock().monotonic_us() - frame.ran_us, lambda _run, _why: None)
        return executor.failed(run, error, frame.ran_us)
    except BaseException as broken:
        return executor.broken(claim, broken)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), version=sys.argv[4])
