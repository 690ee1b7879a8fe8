"""The executor: one attempt, step by step. Each step is small, has a name, and can be tested alone.

    load      which task, with which timeout, and what it will know of its job
    bind      stored bytes become arguments of the annotated types, resources are added
    (run      the pool calls the function: in a thread, or on a loop)
    classify  what came of it: an outcome, with a reason
    decide    what follows: the transition, by the rules of core.lifecycle and the task's retry policy
    record    the settlement that the store gets

A job cannot bring a slot down: whatever its function raises, `SystemExit` included, becomes an outcome.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from windlass.app.app import App
from windlass.app.context import JobContext, Scribe
from windlass.app.endings import Cancel, CancelAsked, Cut, Dead, Ending, Interrupted, RetryAfter, Snooze
from windlass.app.options import Travelling, read_travelling
from windlass.app.resources import Opened
from windlass.core.codec import encode_result
from windlass.core.durations import show, show_span
from windlass.core.errors import CorruptRecord, InputError, JobError, WrongType
from windlass.core.events import Started
from windlass.core.ids import WorkerId, show_id
from windlass.core.job import Failure, Outcome, State
from windlass.core.lifecycle import CANCELLED, SUCCESS, Standing, Transition, decide
from windlass.core.limits import Limits
from windlass.engines.protocol import Claim, Engine, Settlement
from windlass.worker.desk import GRACE_US, Interrupt, Run
from windlass.worker.failure import failure_of
from windlass.worker.service import log

ASKED_RETRIES = 20
"""How often a task without a retry policy may ask for `RetryAfter`."""

UNSTORABLE = "settlement"
"""The reason of a job whose end could not be stored, mostly because middleware changed it."""

SEND_AGAIN = "Cancel it and send it again; the sender and this worker may differ in version."

_NONE = encode_result(None)


class Finding(msgspec.Struct, frozen=True):
    """What came of an attempt."""

    outcome: Outcome
    error: BaseException | None = None
    delay_us: int | None = None
    reason: str | None = None


class Refused(Exception):
    """The job cannot be run at all: `reason` says why, the cause is the error to show."""

    def __init__(self, reason: str, error: Exception) -> None:
        super().__init__(reason)
        self.reason = reason
        self.error = error


class Executor:
    """Knows how an attempt goes; the pool knows where."""

    def __init__(
        self,
        app: App,
        engine: Engine | None,
        resources: Opened,
        scribe: Scribe,
        worker: Callable[[], WorkerId],
        *,
        alone: bool,
        isolates: bool = False,
    ) -> None:
        self._app = app
        self._engine = engine
        self._limits = app.limits
        self._tasks = app.tasks
        self._stack = app.stack
        self._bus = app.bus
        self._resources = resources
        self._scribe = scribe
        self._worker = worker
        self._alone = alone
        self._isolates = isolates

    # ── load ────────────────────────────────────────────────────────────────────────────────────────────

    def load(self, claim: Claim, started_us: int, interrupt: Interrupt) -> Run:
        """The attempt, before anything of it has run."""
        task = self._tasks.get(claim.task)
        if task is None:
            raise Refused("unknown task", JobError(f"No worker knows the task {claim.task} any more."))
        context = JobContext(
            claim.id, claim.task, claim.queue, attempt=claim.attempt, fence=claim.fence, scribe=self._scribe
        )
        context.store = self._app
        context.engine = self._engine
        context.resources = self._resources
        context.alone = self._alone or (claim.suspect and not self._isolates)  # nothing runs beside it
        context.is_async = task.is_async
        context.keeps_lines = task.options.logs
        timeout_us, grace_us = task.options.timeout_us, task.options.grace_us
        if claim.options:
            said = self._travelling(claim)
            timeout_us = said.timeout_us or timeout_us
            grace_us = grace_us if said.grace_us is None else said.grace_us
        if timeout_us is not None:
            context.deadline_us = started_us + timeout_us
        return Run(claim, task, context, started_us, interrupt, GRACE_US if grace_us is None else grace_us)

    def _travelling(self, claim: Claim) -> Travelling:
        try:
            return read_travelling(claim.options)
        except msgspec.MsgspecError as error:
            raise Refused("options", CorruptRecord(f"The job's options cannot be read: {error}.", SEND_AGAIN)) from None

    # ── bind ────────────────────────────────────────────────────────────────────────────────────────────

    def bind(self, run: Run) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """The function's arguments; hooks before a run come last, when nothing else can go wrong."""
        task = run.task
        try:
            args, kwargs = task.signature.decode(run.claim.payload, self._limits)
        except (WrongType, CorruptRecord, JobError) as error:
            raise Refused("arguments", error) from None
        if task.injected:
            kwargs = {**kwargs, **{name: self._resources.get(kind) for name, kind in task.injected.items()}}
        for hook in self._stack.before_run:
            hook(run.context)
        if self._bus.wanted(Started):
            claim = run.claim
            self._bus.publish(
                Started(
                    at_us=self._app.now_us(),
                    job=claim.id,
                    task=claim.task,
                    worker=self._worker(),
                    fence=claim.fence,
                    attempt=claim.attempt,
                )
            )
        return args, kwargs

    # ── what came of it ─────────────────────────────────────────────────────────────────────────────────

    def succeeded(self, run: Run, value: Any, ran_us: int) -> Settlement:
        """The settlement of a function that returned."""
        claim = run.claim
        keep_us = run.task.options.keep_result_us
        if claim.options:
            said = self._travelling(claim).keep_result_us
            keep_us = keep_us if said is None else said
        result: bytes | None = None
        if keep_us != 0:
            try:
                result = _NONE if value is None else encode_result(value, self._limits)
            except InputError as error:
                # The work is done; doing it again would not make its result fit.
                return self.ended(run, Finding(Outcome.FAILED, error, reason="result"), ran_us)
        return success(claim, result, ran_us, keep_us, self._limits)

    def failed(self, run: Run, error: BaseException, ran_us: int) -> Settlement:
        """The settlement of a function that raised."""
        if run.asked is Cut and not isinstance(error, Ending):
            return given_back(run.claim)  # another worker may have it already; if not, somebody runs it again
        return self.ended(run, self.classify(run, error), ran_us)

    def classify(self, run: Run, error: BaseException) -> Finding:
        """What an exception means."""
        policy, attempt = run.task.options.retry, run.claim.attempt
        if run.asked is not None and not isinstance(error, Ending):
            # Whatever became of the exception on its way out of the task: it ends because it was told to.
            error = run.asked()
        match error:
            case Snooze():
                return Finding(Outcome.SNOOZE, None, error.delay_us, error.reason)
            case Cancel():
                return Finding(Outcome.CANCELLED, error, reason=error.reason)
            case Dead():
                return Finding(Outcome.FAILED, error, reason=error.reason)
            case RetryAfter():
                left = attempt <= (ASKED_RETRIES if policy is None else policy.retries)
                return Finding(Outcome.RETRY, error, error.delay_us if left else None, None if left else "retries")
            case Refused():
                return Finding(Outcome.FAILED, error.error, reason=error.reason)
            case CancelAsked():
                return Finding(Outcome.CANCELLED, None, reason=CANCELLED)
            case Interrupted():
                # To the policy it is what it is to everybody: a timeout.
                seen, outcome = TimeoutError(_overdue(run)), Outcome.TIMED_OUT
            case _:
                seen, outcome = error, Outcome.FAILED
        if policy is None or not policy.wants(seen, attempt):
            return Finding(outcome, seen)
        return Finding(outcome, seen, policy.delay_us(attempt, random.random))

    def ended(self, run: Run, finding: Finding, ran_us: int) -> Settlement:
        """decide and record: the settlement of an attempt that did not succeed."""
        failure = _failure(run.claim, finding, self._limits)
        end = settlement(run.claim, finding, ran_us, failure, run.task.options.dead_queue)
        tell_of(run.claim, end)
        return end

    def broken(self, claim: Claim, error: BaseException) -> Settlement:
        """The settlement of a job that something around its function stopped: it could not be loaded, or a hook or a
        retry policy raised what it must not.
        """
        if isinstance(error, Refused):
            finding = Finding(Outcome.FAILED, error.error, reason=error.reason)
        else:
            log.error("Job %s (%s) cannot be ended as usual.", show_id(claim.id), claim.task, exc_info=error)
            finding = Finding(Outcome.FAILED, error, reason="worker")
        return settlement(claim, finding, 0, _failure(claim, finding, self._limits), None)

    def tell_after(self, run: Run, error: BaseException | None) -> None:
        """Hooks after a run."""
        from windlass.app.middleware import tell

        tell(self._stack.after_run, run.context, error)

    @property
    def has_hooks_after(self) -> bool:
        return bool(self._stack.after_run)


def success(claim: Claim, result: bytes | None, ran_us: int, keep_us: int | None, limits: Limits) -> Settlement:
    """What the store gets for an attempt that succeeded."""
    first = claim.attempt == 1 and not claim.crashes and not claim.losses
    return Settlement(
        id=claim.id,
        fence=claim.fence,
        transition=SUCCESS if first else decide(Outcome.SUCCEEDED, _standing(claim)),
        result=result,
        ran_us=ran_us,
        # A result goes with its record, so the record stays as long.
        keep_us=keep_us if keep_us and keep_us > limits.keep_succeeded_us else None,
        keep_result_us=keep_us or None,
    )


def settlement(
    claim: Claim, finding: Finding, ran_us: int, failure: Failure | None, dead_queue: str | None
) -> Settlement:
    """What the store gets for an attempt that did not succeed."""
    transition = decide(finding.outcome, _standing(claim), delay_us=finding.delay_us, reason=finding.reason)
    return Settlement(
        id=claim.id,
        fence=claim.fence,
        outcome=finding.outcome,
        transition=transition,
        failure=failure,
        ran_us=ran_us,
        queue=dead_queue if transition.to is State.DEAD else None,
    )


def tell_of(claim: Claim, end: Settlement) -> None:
    """The worker's log says what an attempt died of."""
    if end.failure is not None:
        dead = end.transition.to is State.DEAD
        log.log(
            logging.WARNING if dead else logging.INFO,
            "%s %s, attempt %d: %s %s",
            claim.task,
            show_id(claim.id),
            claim.attempt,
            end.failure.sentence,
            "The job is dead." if dead else f"It is tried again in {show_span(end.transition.delay_us)}.",
        )


def given_back(claim: Claim) -> Settlement:
    """The settlement of a claim that was not started."""
    return Settlement(id=claim.id, fence=claim.fence, outcome=None, transition=_unstarted(claim))


def crashed(claim: Claim, error: JobError, limits: Limits, ran_us: int, dead_queue: str | None) -> Settlement:
    """The settlement of a claim whose process died under it."""
    failure = failure_of(error, limits, claim.task)
    return settlement(claim, Finding(Outcome.CRASHED), ran_us, failure, dead_queue)


def cancelled(claim: Claim) -> Settlement:
    """The settlement of a claim that was cancelled before it started."""
    finding = Finding(Outcome.CANCELLED, reason=CANCELLED)
    return settlement(claim, finding, 0, None, None)


def unstorable(claim: Claim, failure: Failure) -> Settlement:
    """The settlement of a claim whose own settlement the store refuses."""
    return settlement(claim, Finding(Outcome.FAILED, reason=UNSTORABLE), 0, failure, None)


def _unstarted(claim: Claim) -> Transition:
    return decide(None, _standing(claim))


def _standing(claim: Claim) -> Standing:
    return Standing(attempt=claim.attempt, crashes=claim.crashes, losses=claim.losses, suspect=claim.suspect)


def _failure(claim: Claim, finding: Finding, limits: Any) -> Failure | None:
    if finding.error is None or finding.outcome is Outcome.CANCELLED:
        return None
    return failure_of(finding.error, limits, claim.task)


def _overdue(run: Run) -> str:
    timeout_us = (run.context.deadline_us or run.started_us) - run.started_us
    return f"The task did not end within its timeout of {show(timeout_us)}."
