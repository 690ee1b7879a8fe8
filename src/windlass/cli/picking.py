"""Which jobs are meant: by their ids, or by what they have in common; a near miss of a name is named."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from windlass.cli.completion import worker_names
from windlass.cli.options import DURATION, Store

if TYPE_CHECKING:
    from windlass.core.ids import JobId, WorkerId
    from windlass.engines.protocol import Query

F = TypeVar("F", bound=Callable[..., Any])

STATES = ("held", "ready", "scheduled", "running", "succeeded", "dead", "cancelled", "expired")
CALLED = {"failed": "dead", "failure": "dead", "success": "succeeded", "done": "succeeded", "pending": "ready"} | {
    "queued": "ready",
    "started": "running",
    "active": "running",
    "delayed": "scheduled",
    "revoked": "cancelled",
    "canceled": "cancelled",
}
"""What other queues call a state."""


class StateType(click.ParamType[str]):
    """A state; a near miss is named, and so is what others call otherwise."""

    name = "state"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from windlass.core.names import near_miss

        word = str(value).lower()
        if word in STATES:
            return word
        meant = CALLED.get(word) or near_miss(word, STATES)
        hint = f"Did you mean {meant}?" if meant else f"There are: {', '.join(STATES)}."
        self.fail(f"There is no state {value!a}. {hint}", param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "STATE"


state_option = click.option("-s", "--state", type=StateType(), help=f"One of: {', '.join(STATES)}.")
queue_option = click.option("-q", "--queue", metavar="NAME", help="Those of that queue.")
task_option = click.option("-t", "--task", metavar="NAME", help="Those of that task; its last part is enough.")
tag_option = click.option("--tag", metavar="TAG", help="Those with that tag.")
worker_option = click.option(
    "--worker", metavar="NAME", shell_complete=worker_names, help="Those that this worker runs: its name or id."
)
since_option = click.option(
    "--since", type=DURATION, help="Those that ended, or came where they have not ended, in the last 15m, 2h, 7d …"
)
error_option = click.option(
    "-e", "--error", metavar="FINGERPRINT", help="Those of that error, as `dead list` shows it, or its beginning."
)


def filters(function: F) -> F:
    """The options that say which jobs."""
    for option in (since_option, worker_option, tag_option, task_option, queue_option, state_option):
        function = option(function)
    return function


def job_ids(words: Iterable[str]) -> list[JobId]:
    """The ids that were typed, each once."""
    from windlass.core.ids import read_id

    return list(dict.fromkeys(map(read_id, words)))


def query(store: Store, **asked: Any) -> Query:
    """The query for what was asked for; what was not given is None."""
    from windlass.core.clock import SystemClock
    from windlass.core.durations import to_us
    from windlass.core.job import State
    from windlass.core.names import check_name
    from windlass.engines.protocol import Query

    state, queue, task, worker = (asked.get(name) for name in ("state", "queue", "task", "worker"))
    since, error = asked.get("since"), asked.get("error")
    return Query(
        state=None if state is None else State(state),
        queue=None if queue is None else check_name("queue", queue),
        task=None if task is None else _task(store, check_name("task", task)),
        tag=asked.get("tag"),
        worker=None if worker is None else _worker(store, worker),
        since_us=None if since is None else SystemClock().now_us() - to_us(since),
        fingerprint=None if error is None else _fingerprint(store, error),
    )


def is_narrow(asked: Query) -> bool:
    """Whether anything was asked for but a state."""
    return any((asked.queue, asked.task, asked.tag, asked.worker, asked.fingerprint, asked.since_us))


def misspelt(store: Store, asked: Query) -> str:
    """` No job and no worker names the queue mayl. Did you mean mail?` where nothing was found for such a name."""
    from windlass.ops import stats

    if asked.queue is not None:
        known = {queue.name for queue in stats.queues(store.engine)}
        if asked.queue not in known:
            return f" {strange('queue', asked.queue, known)}"
    if asked.task is not None:
        known = {task.name for task in stats.tasks(store.engine)}
        if asked.task not in known:
            return f" {strange('task', asked.task, known)}"
    return ""


def strange(kind: str, word: str, known: Iterable[str]) -> str:
    """That nothing in the store is called so, and what was most likely meant."""
    meant = nearest(word, known)
    return f"No job and no worker names the {kind} {word}.{f' Did you mean {meant}?' if meant else ''}"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that is nearly the word, whole or by its last part."""
    from windlass.core.names import near_miss

    names = set(known)
    by_end = {name.rpartition(".")[2]: name for name in names}
    return near_miss(word, names) or by_end.get(near_miss(word, by_end) or "")


def _task(store: Store, word: str) -> str:
    """The task of that name, or the only one whose last part it is."""
    from windlass.ops import stats

    known = {task.name for task in stats.tasks(store.engine)}
    ending = sorted(name for name in known if name.endswith(f".{word}"))
    if word in known or not ending:
        return word
    if len(ending) > 1:
        raise click.UsageError(f"{word} may be {', '.join(ending)}. Write it whole.")
    return ending[0]


def _worker(store: Store, word: str) -> WorkerId:
    from windlass.ops import command
    from windlass.ops.cards import take_stock

    (card,) = command.find_each(take_stock(store.engine).cards, [word])
    return card.worker


def _fingerprint(store: Store, word: str) -> str:
    from windlass.ops import view

    known = {group.fingerprint for group in view.error_groups(store.engine).groups if group.fingerprint}
    found = sorted(name for name in known if name.startswith(word.lower()))
    if word in known or not found:
        return word
    if len(found) > 1:
        raise click.UsageError(f"{word} may be {', '.join(found)}. Write more of it.")
    return found[0]
