"""Every key that the engine writes. What is not listed here is not ours; docs/engines/redis.md shows it as a table.

Names stand behind the namespace's hash tag: `meta` is the key `{windlass}:meta`. A key without members is removed by
the server itself, and none has a time to live: what goes by time goes by a sweep, with all that belongs to it.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

Type = Literal["string", "hash", "list", "set", "zset"]


class Key(msgspec.Struct, frozen=True):
    """One key, or all keys of one kind: what varies in their names stands in angle brackets."""

    name: str
    type: Type
    holds: str
    lives: str

    @property
    def is_fixed(self) -> bool:
        """Whether there is one of it in a namespace."""
        return "<" not in self.name

    @property
    def is_permanent(self) -> bool:
        """Whether it is there once the first job was, and for good."""
        return self.lives == FOR_GOOD


FOR_GOOD: Final = "for good"
_JOB: Final = "until its job is purged or deleted"
_CARD: Final = "as long as the worker's card"
_EMPTY: Final = "while something is in it"

KEYS: Final = (
    Key(
        "meta",
        "hash",
        "`schema`, the store's `id`, its count (`order`), its `version`, how many succeeded, its last whole sweeps",
        FOR_GOOD,
    ),
    # ── a job
    Key("j:<job>", "string", "its record", _JOB),
    Key("r:<job>", "string", "its request", _JOB),
    Key("o:<job>", "string", "its result", _JOB),
    Key("x:<job>", "hash", "what few have: `failure`, `progress` and its time, sizes of the log", _JOB),
    Key("a:<job>", "list", "its attempts", _JOB),
    Key("lh:<job>", "list", "the first lines of its log", _JOB),
    Key("lt:<job>", "list", "the last lines of its log", _JOB),
    Key("st:<job>", "hash", "its steps", _JOB),
    Key("k:<unique>", "string", "the job that holds a unique key", "while it holds it"),
    # ── shelves: where a job stands, by its state
    Key("s:<stream>", "zset", "ready jobs by rank", _EMPTY),
    Key("h:<queue>", "zset", "the queue's streams by the rank of their first jobs", _EMPTY),
    Key("queues", "set", "queues with ready jobs", _EMPTY),
    Key("behind:<gate>", "set", "streams whose jobs pass a gate that tasks share", _EMPTY),
    Key("due", "zset", "scheduled jobs by due time", _EMPTY),
    Key("held", "zset", "held jobs by age", _EMPTY),
    Key("w:<worker>", "zset", "its running jobs by rank", _EMPTY),
    Key("e:<ended>|<queue>|<task>", "zset", "ended jobs by the time of their end", _EMPTY),
    # ── more ways to find jobs
    Key("exp", "zset", "waiting jobs by the time at which they expire", _EMPTY),
    Key("keys", "zset", "unique keys that go by time", _EMPTY),
    Key("purge", "zset", "ended jobs by the time at which they are purged, but for successes", _EMPTY),
    Key("purgeok", "zset", "successes by the time at which they are purged", _EMPTY),
    Key("la:<lane>", "zset", "the lane's jobs by age", _EMPTY),
    Key("fp:<print>", "zset", "jobs with an error of that fingerprint", _EMPTY),
    # ── lanes, parents, flows
    Key("lane:<lane>", "hash", "its limit, places taken, last rank let in", "while a job is in it or waits for it"),
    Key("lw:<lane>", "zset", "jobs that wait for a place, in order", _EMPTY),
    Key("edge:<job>", "list", "children that wait for its end", "until it has ended and they were told"),
    Key("flow:<flow>", "hash", "whether it has started, how many of its jobs are open", "until its last job is purged"),
    Key("fn:<flow>", "zset", "its jobs, in the order in which they came", "until its last job is purged"),
    Key("chores", "list", "what a step left to be done by the next ones", _EMPTY),
    Key("ci:<job>", "list", "follow-ups of its end that a chore inserts", "until the chore is done"),
    # ── counts
    Key("counts", "hash", "jobs by queue, task and state", _EMPTY),
    Key("run", "hash", "running jobs by gate", _EMPTY),
    Key("hist:<span>", "zset", "the starts of the buckets of a history", "as long as the last bucket"),
    Key("hb:<span>:<start>", "hash", "counts of one minute, hour or day", "six hours, two weeks, thirteen months"),
    # ── workers
    Key("cards", "hash", "the workers' cards", "until the last says bye or is swept"),
    Key("desks", "hash", "the store's side of each card: beat, lease, ticket", "until the last says bye or is swept"),
    Key("tk:<worker>", "set", "the tasks that it knows", _CARD),
    Key("asked:<worker>", "set", "its running jobs that were asked to stop", _EMPTY),
    Key("news", "hash", "for each queue the version of the last step that gave it work", "while one has ready jobs"),
    Key("rooms", "set", "rooms in which somebody sleeps", "until a sweep after the last has gone on"),
    Key(
        "idle:<room>",
        "set",
        "who sleeps until a queue has work, or any has (`*`)",
        "until all were rung, went on or are swept",
    ),
    # ── facts
    Key("facts", "hash", "facts with version and expiry", "until each is written away or expires"),
    Key("factx", "zset", "facts that expire, by time", _EMPTY),
    Key("rules", "hash", "facts that are gates, as claim reads them", "as long as the fact"),
    Key("tat", "hash", "for each gate with a rate, until when its tokens are spent", "as long as the fact"),
)

FIXED: Final = {key.name: key.type for key in KEYS if key.is_fixed}
"""The keys of fixed names and their types; open refuses a store in which one has another."""
