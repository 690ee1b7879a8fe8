"""The Lua scripts: one file per verb in lua/, put together from the parts it names in its `-- with:` line.

A server knows no modules, so each script carries what it needs. It is sent once and called by its SHA from then on.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

from windlass.core.lifecycle import POISON_CRASHES, SUSPECT_LOSSES
from windlass.engines.protocol import ATTEMPTS_KEPT, BATCH, LINE_COST, STEPS_KEPT
from windlass.engines.redis.script import Script

VERBS = (
    "open",
    "insert",
    "claim",
    "settle",
    "renew",
    "note",
    "sweep",
    "fetch",
    "shelves",
    "search",
    "amend",
    "tally",
    "read",
    "write",
    "listen",
    "signal",
)
_WITH = "-- with: "
_NUMBERS = {
    "BATCH": BATCH,
    "ATTEMPTS_KEPT": ATTEMPTS_KEPT,
    "STEPS_KEPT": STEPS_KEPT,
    "LINE_COST": LINE_COST,
    "POISON_CRASHES": POISON_CRASHES,
    "SUSPECT_LOSSES": SUSPECT_LOSSES,
}


@cache
def script(name: str) -> Script:
    """The script of a verb."""
    folder = resources.files("windlass.engines.redis").joinpath("lua")
    verb = folder.joinpath(f"{name}.lua").read_text("utf-8")
    parts = next(line for line in verb.splitlines() if line.startswith(_WITH)).removeprefix(_WITH).split()
    texts = [folder.joinpath("parts", f"{part}.lua").read_text("utf-8") for part in parts]
    numbers = "".join(f"local {key} = {value}\n" for key, value in _NUMBERS.items())
    # A function of its own: Lua lets one have two hundred local variables.
    return Script(name, "\n".join([numbers, *texts, "return (function()", verb, "end)()"]).encode())
