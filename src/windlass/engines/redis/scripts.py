"""The Lua scripts: one file per verb in lua/, put together from the parts it names in its `-- with:` line.

A server knows no modules, so each script carries what it needs. It is sent once and called by its SHA from then on.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

from windlass.core.lifecycle import POISON_CRASHES, SUSPECT_LOSSES
from windlass.engines.protocol import ATTEMPTS_KEPT, BATCH, LINE_COST, STEPS_KEPT
from windlass.engines.redis.script import Script

VERBS = (
    "open",
    "parents",
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
_CONSTANTS = re.compile(r"^local ([A-Z][A-Z_, ]*) = (-?[0-9][-0-9, ]*)$", re.MULTILINE)
_TOKEN = re.compile(r"'[^'\n]*'|--[^\n]*|\b[A-Z][A-Z_]+\b")


@cache
def script(name: str) -> Script:
    """The script of a verb."""
    folder = resources.files("windlass.engines.redis").joinpath("lua")
    verb = folder.joinpath(f"{name}.lua").read_text("utf-8")
    parts = next(line for line in verb.splitlines() if line.startswith(_WITH)).removeprefix(_WITH).split()
    texts = [folder.joinpath("parts", f"{part}.lua").read_text("utf-8") for part in parts]
    # The verb is a function of its own: Lua lets one have two hundred local variables.
    return Script(name, _inlined("\n".join([*texts, "return (function()", verb, "end)()"])).encode())


def _inlined(source: str) -> str:
    """The source with its constants as numbers, and without comments.

    A server runs a script from its first line at every call. Each local that a function uses costs a search among all
    that are used: with the eighty names of fields and states as locals, a call took twice as long before it began.
    """
    constants: dict[str, str] = {name: str(value) for name, value in _NUMBERS.items()}
    for names, values in _CONSTANTS.findall(source):
        constants.update(zip(names.split(", "), values.split(", "), strict=True))

    def put(found: re.Match[str]) -> str:
        text = found[0]
        return "" if text.startswith("--") else constants.get(text, text)

    lines = _TOKEN.sub(put, _CONSTANTS.sub("", source)).splitlines()
    return "\n".join(line.rstrip() for line in lines if line.strip())
