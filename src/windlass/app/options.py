"""What can be said of a task, and of one send: read once, at the edge, into values that the rest can trust.

A task's options stay with its function: the worker reads them there, so changing a timeout changes it for jobs that
wait already. Only what one send says otherwise travels with the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, cast

import msgspec

from windlass.core.durations import instant_us, to_us
from windlass.core.errors import BadValue
from windlass.core.gates import MEMORY, Needs
from windlass.core.ids import JobId, read_id
from windlass.core.job import Unique
from windlass.core.limits import DEFAULT, EIB, Limits, to_bytes
from windlass.core.names import check_name, refuse_unknown
from windlass.core.rank import TOP_PRIORITY
from windlass.core.retry import Numbers, Retry

OnCut = Literal["finish", "stop"]
"""What becomes of a running job whose worker has lost touch with the store."""

_encode = msgspec.json.Encoder().encode


class TaskOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for every job of a task."""

    queue: str | None = None
    """None: as the app's routes say."""
    priority: int = 0
    tags: tuple[str, ...] = ()
    retry: Retry | None = None
    timeout_us: int | None = None
    grace_us: int | None = None
    """How long it may take to heed its timeout before its runner is killed; None: 5 s."""
    memory: int | None = None
    """Bytes."""
    needs: Needs = ()
    """Other resources, by name."""
    on_cut: OnCut = "finish"
    keep_result_us: int | None = None
    """How long a result is kept: None as the store's limits say, 0 not at all."""
    dead_queue: str | None = None
    logs: bool = True
    """Whether what it prints and logs is kept with its jobs."""
    extra: Mapping[str, Any] = {}
    """Options that middleware brought along."""


class Travelling(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one send says otherwise than its task, as it is stored with the job."""

    timeout_us: int | None = None
    grace_us: int | None = None
    keep_result_us: int | None = None
    retry: Numbers | None = None
    """Of a script: there is no function that could say."""


NOTHING = Travelling()
read_travelling = msgspec.json.Decoder(Travelling).decode


class SendOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for the jobs of one send; None or empty where the task decides."""

    queue: str | None = None
    priority: int | None = None
    tags: tuple[str, ...] | None = None
    delay_us: int = 0
    at_us: int | None = None
    expires_in_us: int | None = None
    expires_us: int | None = None
    id: JobId | None = None
    key: Unique | None = None
    memory: int | None = None
    needs: Needs | None = None
    travelling: Travelling = NOTHING

    def expiry_us(self, now_us: int) -> int | None:
        """The instant at which a job sent now expires."""
        return self.expires_us if self.expires_in_us is None else now_us + self.expires_in_us

    def stored(self) -> bytes:
        """The part that travels with the job; empty where there is none."""
        return b"" if self.travelling == NOTHING else _encode(self.travelling)


def needs_of(task: TaskOptions, sending: SendOptions) -> Needs:
    """What a job takes of its worker: what its send says, else its task; memory is one of the resources."""
    needs = task.needs if sending.needs is None else sending.needs
    memory = task.memory if sending.memory is None else sending.memory
    return needs if memory is None else tuple(sorted((*needs, (MEMORY, memory))))


TASK_OPTIONS = (
    "name",
    "queue",
    "retry",
    "timeout",
    "grace",
    "memory",
    "needs",
    "on_cut",
    "priority",
    "tags",
    "keep_result",
    "dead_queue",
    "logs",
)
SEND_OPTIONS = (
    "queue",
    "priority",
    "tags",
    "delay",
    "at",
    "expires",
    "timeout",
    "grace",
    "memory",
    "needs",
    "keep_result",
    "id",
    "key",
)


def read_task_options(name: str, given: Mapping[str, Any], extra: Sequence[str]) -> TaskOptions:
    """A task's options, each checked; `extra` are those that middleware declares."""
    refuse_unknown(f"The task {name}", given, (*TASK_OPTIONS, *extra))
    return TaskOptions(
        queue=_queue("queue", given.get("queue")),
        priority=_priority(given.get("priority", 0)),
        tags=_tags(given.get("tags", ())),
        retry=read_retry(given.get("retry")),
        timeout_us=_timeout_us(given.get("timeout")),
        grace_us=_grace_us(given.get("grace")),
        memory=_memory(given.get("memory")),
        needs=_needs(given.get("needs")) or (),
        on_cut=_on_cut(given.get("on_cut", "finish")),
        keep_result_us=_keep_us(given.get("keep_result")),
        dead_queue=_queue("dead-letter queue", given.get("dead_queue")),
        logs=_logs(given.get("logs", True)),
        extra={option: given[option] for option in extra if option in given},
    )


def read_send_options(name: str, given: Mapping[str, Any], limits: Limits = DEFAULT) -> SendOptions:
    """What one send says of its jobs, each checked."""
    refuse_unknown(f"A send of {name}", given, SEND_OPTIONS)
    delay, expires = given.get("delay"), given.get("expires")
    priority, tags, at, key = given.get("priority"), given.get("tags"), given.get("at"), given.get("key")
    if delay is not None and at is not None:
        raise BadValue("A send has either `delay` or `at`.", "Leave one of them out.")
    return SendOptions(
        queue=_queue("queue", given.get("queue")),
        priority=None if priority is None else _priority(priority),
        tags=None if tags is None else _tags(tags),
        delay_us=0 if delay is None else to_us(delay),
        at_us=None if at is None else instant_us(at),
        expires_us=instant_us(expires) if isinstance(expires, datetime) else None,
        expires_in_us=None if expires is None or isinstance(expires, datetime) else to_us(expires),
        id=_id(given.get("id")),
        key=None if key is None else Unique(check_name("key", key)),
        memory=_memory(given.get("memory")),
        needs=_needs(given.get("needs")),
        travelling=Travelling(
            timeout_us=_timeout_us(given.get("timeout")),
            grace_us=_grace_us(given.get("grace")),
            # Said of one send, True is more than nothing said: it wins over a task that keeps none.
            keep_result_us=_keep_us(given.get("keep_result"), limits.keep_result_us),
        ),
    )


def _queue(kind: str, value: Any) -> str | None:
    return None if value is None else check_name(kind, value)


def _priority(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= TOP_PRIORITY:
        raise BadValue(f"Priority {value!r} is not allowed.", "Give 0 to 9; nine runs first.")
    return value


def _tags(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        raise BadValue(f"The tags are the text {value!r}.", f"Give a list: [{value!r}].")
    if not isinstance(value, Iterable):
        raise BadValue(f"The tags cannot be {value!r}.", 'Give a list: ["mail"].')
    return tuple(check_name("tag", tag) for tag in cast("Iterable[str]", value))


def read_retry(value: Any) -> Retry | None:
    """A policy, or a number of retries; None: one failure is the end."""
    if isinstance(value, int):
        return Retry(value)
    if value is not None and not isinstance(value, Retry):
        raise BadValue(f"A retry policy cannot be {value!r}.", "Give Retry(5) or a number of retries.")
    return value


def _timeout_us(value: Any) -> int | None:
    if value is None:
        return None
    us = to_us(value)
    if us == 0:
        raise BadValue("A timeout of 0 would stop every job at once.", "Leave it out for no timeout.")
    return us


def _grace_us(value: Any) -> int | None:
    return None if value is None else to_us(value)


def _memory(value: Any) -> int | None:
    if value is None:
        return None
    size = to_bytes(value)
    if size == 0:
        raise BadValue("With a memory of 0 no job could run.", "Leave it out for no limit.")
    return size


def _needs(value: Any) -> Needs | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise BadValue(f"The needs cannot be {value!r}.", 'Give amounts by name: {"browser": 1}.')
    return tuple(sorted(_need(name, amount) for name, amount in cast("Mapping[Any, Any]", value).items()))


def _need(name: Any, amount: Any) -> tuple[str, int]:
    if check_name("resource", name) == MEMORY:
        raise BadValue("Memory is not one of the `needs`.", 'Use memory=, such as memory="512MB".')
    if type(amount) is not int or not 1 <= amount <= EIB:
        raise BadValue(f"A need of {amount!r} {name} is not allowed.", "Give a whole number, 1 or more.")
    return name, amount


def _on_cut(value: Any) -> OnCut:
    if value not in ("finish", "stop"):
        raise BadValue(f"`on_cut` cannot be {value!r}.", 'Give "finish" or "stop".')
    return value


def _logs(value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadValue(f"`logs` cannot be {value!r}.", "Give True or False.")
    return value


def _keep_us(value: Any, usual_us: int | None = None) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return usual_us if value else 0
    return to_us(value)


def _id(value: Any) -> JobId | None:
    if value is None or isinstance(value, bytes):
        return value
    return read_id(str(value))
