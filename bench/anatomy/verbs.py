"""Verbs: what a claim and a settle take of the server's CPU, by what it says of its commands.

`INFO commandstats` counts the microseconds of each command; those of commands that a script calls are in those of
EVALSHA too, so of scripts EVALSHA alone is read. Which script it was is in the slow log. That one logs the commands
within scripts as well, so it is asked for what takes longer than any of those, and only in a window of its own.

Both count by the wall. On busy cores the server is pushed from its core in the middle of scripts, and they seem to take
more than its CPU time in all. So in that window it goes before everybody else: then the wall is its CPU.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from bench.race.contestant import SEATS
from bench.race.entries import Product
from windlass.engines.redis.scripts import VERBS, script

OTHER = "other"
TOLD_APART: tuple[str, ...] = ("claim", "settle", OTHER)
SCRIPTS = "evalsha"
SLOWER_THAN_US = 20
"""Plain commands take a microsecond or two, a claim or settle of a few jobs more than this."""
LOGGED = 1_000_000
CONSTANT = re.compile(r'^([A-Z]+) = """(.*?)"""$', re.MULTILINE | re.DOTALL)


class Verbs(msgspec.Struct, frozen=True):
    """How to tell a contestant's claims and settles: its scripts by their SHA, or plain commands by their names."""

    scripts: Mapping[str, str] = {}
    commands: Mapping[str, str] = {}


def verbs_of(product: Product) -> Verbs:
    """Ours by our scripts. A floor has its scripts as constants in its file, or plain commands."""
    if product.kind == "ours":
        return Verbs(scripts={script(verb).sha.decode(): verb for verb in VERBS})
    source = (SEATS / f"{product.seat}.py").read_text()
    scripts = {hashlib.sha1(text.encode()).hexdigest(): name.lower() for name, text in CONSTANT.findall(source)}
    if scripts:
        return Verbs(scripts=scripts)
    return Verbs(commands={"lmove": "claim", "hmget": "claim", "hset": "settle", "hdel": "settle", "del": "settle"})


def commands_us(client: Any) -> Counter[str]:
    """What each command took so far."""
    return Counter(
        {name.removeprefix("cmdstat_"): stats["usec"] for name, stats in client.info("commandstats").items()}
    )


@contextmanager
def slow_log(client: Any, verbs: Verbs) -> Generator[dict[str, float]]:
    """Has the server log what it does meanwhile; at the end it is told what claim, settle and all else took, in µs."""
    took: dict[str, float] = {}
    before = {name: client.config_get(name)[name] for name in ("slowlog-log-slower-than", "slowlog-max-len")}
    client.config_set("slowlog-max-len", LOGGED)
    client.slowlog_reset()
    began_us = commands_us(client)
    client.config_set("slowlog-log-slower-than", SLOWER_THAN_US)
    try:
        yield took
    finally:
        client.config_set("slowlog-log-slower-than", before["slowlog-log-slower-than"])
        took_us = commands_us(client) - began_us
        logged = [(entry["command"].split(maxsplit=2), entry["duration"]) for entry in client.slowlog_get(LOGGED)]
        client.config_set("slowlog-max-len", before["slowlog-max-len"])
    scripts = [(words[1].decode(), us) for words, us in logged if words[0].lower() == SCRIPTS.encode()]
    took |= told_apart(scripts, took_us, verbs)


def told_apart(scripts: Iterable[tuple[str, int]], took_us: Mapping[str, int], verbs: Verbs) -> dict[str, float]:
    """The time of claim, settle and all others: of the scripts that were logged, and of plain commands that are named.

    What scripts took and no claim or settle did is the others', logged or not.
    """
    found = dict.fromkeys(TOLD_APART, 0.0)
    for sha, us in scripts:
        verb = verbs.scripts.get(sha, OTHER)
        found[verb if verb in found else OTHER] += us
    found[OTHER] = took_us.get(SCRIPTS, 0) - sum(us for verb, us in found.items() if verb != OTHER)
    for command, verb in verbs.commands.items():
        found[verb] += took_us.get(command, 0)
    return found


@contextmanager
def goes_first(pid: int) -> Generator[None]:
    """Meanwhile the main thread of a process has a core whenever it wants one, before everybody else."""
    os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))
