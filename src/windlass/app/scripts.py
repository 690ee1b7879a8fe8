"""Scripts, sent as jobs: there is no function of the user's, so everything that is said of one travels with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, TypedDict

import msgspec

from windlass.app.options import SEND_OPTIONS, TaskOptions, read_retry
from windlass.app.task import House, Sender
from windlass.core.durations import Duration
from windlass.core.names import refuse_unknown
from windlass.core.retry import Retry
from windlass.core.scripts import SCRIPT, new_script, whoever_sends
from windlass.core.settings import Settings


class Sending(TypedDict, total=False):
    """What one send of a script may say, as `using` has it."""

    delay: Duration
    at: datetime
    expires: Duration | datetime
    priority: int
    queue: str
    tags: Sequence[str]
    timeout: Duration
    grace: Duration
    memory: int | str
    needs: Mapping[str, int]
    keep_result: bool | Duration
    id: str | bytes
    key: str


class Yard(House, Protocol):
    """What is needed of the app besides."""

    @property
    def settings(self) -> Settings: ...


def sender(app: Yard, retry: Retry | int | None, how: Mapping[str, Any]) -> Sender[..., int]:
    """Sends scripts as that says."""
    refuse_unknown("A script", how, ("args", "name", "retry", *SEND_OPTIONS))
    usual = TaskOptions(memory=app.settings.script_memory_bytes)
    plain: Sender[..., int] = Sender(app, SCRIPT, usual)
    made = plain.using(**how)
    policy = read_retry(retry)
    if policy is not None:
        travelling = msgspec.structs.replace(made.sending.travelling, retry=policy.numbers())
        made.sending = msgspec.structs.replace(made.sending, travelling=travelling)
    return made


def arguments(app: House, path: str | Path, args: Sequence[str], name: str) -> dict[str, Any]:
    """A script as the arguments of its job."""
    script = msgspec.structs.replace(new_script(path, args, name), by=whoever_sends(), sent_us=app.now_us())
    return msgspec.to_builtins(script)
