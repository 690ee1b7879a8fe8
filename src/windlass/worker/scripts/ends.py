"""What the end of a script means for its job."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final

import msgspec

from windlass.core.codec import encode_result
from windlass.core.durations import show, show_span
from windlass.core.errors import ScriptFailed, WindlassError
from windlass.core.job import Failure, Outcome
from windlass.core.lifecycle import CANCELLED
from windlass.core.limits import show_memory
from windlass.core.plural import number_of
from windlass.core.settings import Settings
from windlass.core.system import SIGXCPU, SIGXFSZ
from windlass.engines.protocol import Claim, Settlement
from windlass.worker.deaths import ending, over_memory
from windlass.worker.executor import Finding, given_back, settlement, success, tell_of
from windlass.worker.failure import failure_of
from windlass.worker.scripts.child import Child, Why

_ZERO = encode_result(0)
REASON = "script"
"""Why a job is dead whose script cannot be run at all."""


def refused(claim: Claim, error: WindlassError, settings: Settings, path: str) -> Settlement:
    """It cannot be run, now or later: the job is dead at once, whatever its retries."""
    finding = Finding(Outcome.FAILED, error, reason=REASON)
    failure = failure_of(error.with_traceback(None), settings.limits, f"{claim.task} {path}")
    end = settlement(claim, finding, 0, msgspec.structs.replace(failure, traceback=""), None)
    tell_of(claim, end)
    return end


def ended(child: Child, code: int, settings: Settings) -> Settlement:
    """By its exit code, unless we ended it."""
    claim, ran_us = child.claim, child.ended_us - child.started_us
    if child.why == "cut":
        return given_back(claim)
    if child.why == "cancel":
        return settlement(claim, Finding(Outcome.CANCELLED, reason=CANCELLED), ran_us, None, None)
    if child.why is None and code == 0:
        keep_us = child.order.said.keep_result_us
        return success(claim, None if keep_us == 0 else _ZERO, ran_us, keep_us, settings.limits)
    error = _error(child, code, settings)
    outcome = Outcome.TIMED_OUT if child.why == "timeout" else Outcome.FAILED
    finding = Finding(outcome, error, _delay_us(child), None)
    end = settlement(claim, finding, ran_us, _failure(child, error, settings), None)
    tell_of(claim, end)
    return end


def _delay_us(child: Child) -> int | None:
    """When it is tried again; None: it is not."""
    policy = child.order.retry
    if policy is None or child.claim.attempt > policy.retries:
        return None
    return policy.delay_us(child.claim.attempt, random.random)


def _error(child: Child, code: int, settings: Settings) -> Exception:
    what = f"The script {child.order.script.path}"
    if child.why == "timeout":
        return TimeoutError(f"{what} did not end within its timeout of {show(child.order.timeout_us or 0)}.")
    if child.why == "memory":
        return over_memory(child.used, child.order.memory, what)
    if child.why == "processes":
        most = number_of(settings.script_processes, "process")
        return ScriptFailed(f"{what} was more than {most}.", "Let it start fewer, or raise `script_processes`.")
    todo = "Its log says what it wrote."
    if code == -SIGXCPU:
        todo = f"It used more than {show(int(settings.script_cpu_s * 1e6))} of CPU: see `script_cpu`."
    elif code == -SIGXFSZ:
        todo = f"It wrote a file longer than {show_memory(settings.script_file_bytes)}: see `script_file_bytes`."
    return ScriptFailed(f"{what} {ending(code)}.", todo)


def _failure(child: Child, error: Exception, settings: Settings) -> Failure:
    """Its last words in the place of a traceback; like errors are those of the same script."""
    found = failure_of(error, settings.limits, f"{child.claim.task} {child.order.script.path}")
    return msgspec.structs.replace(found, traceback=settings.limits.clip_error("\n".join(child.last_words)))


WHYS: Final[Mapping[Why, str]] = {
    "timeout": "Timed out",
    "memory": "Over its memory (--memory, memory=)",
    "processes": "Too many processes",
    "cancel": "Cancelled",
    "cut": "Stopped, for its worker has lost the store,",
}


def last_line(child: Child, code: int) -> str:
    """How it ended, for its log."""
    took = f"after {show_span(child.ended_us - child.started_us)}"
    used = f"; at most {show_memory(child.used)} in {number_of(child.most, 'process')}" if child.used else ""
    left = f" What it left behind was killed: {number_of(child.left_behind, 'process')}." if child.left_behind else ""
    how = ending(code)
    if child.why is None:
        return f"{how[0].upper()}{how[1:]} {took}{used}.{left}"
    return f"{WHYS[child.why]} {took}, and {how}{used}.{left}"
