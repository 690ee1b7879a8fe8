"""The Lua scripts: one file per verb in lua/, put together from parts and modules.

A server knows no modules, so each script carries what it needs. It is sent once and called by its SHA from then on, and
runs from its first line at every call: a function that is defined for nothing costs as much as the work on a job. So
there are two kinds of files. Parts (lua/parts) are local functions and variables that stand at the beginning of each
script that names them in its `-- with:` line. Modules (lua/modules) are functions in a table, `lanes.join`: those that
a script names are defined at its beginning too; the others that it may come to are defined when it first uses one.
What stands between `-- first:` and `-- then:` in a verb runs before all of them but a few (`_BEFORE`). It may be all
that a call needs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib import resources

from windlass.core.lifecycle import POISON_CRASHES, SUSPECT_LOSSES
from windlass.engines.protocol import ATTEMPTS_KEPT, BATCH, LINE_COST, STEPS_KEPT
from windlass.engines.redis.script import Script

_FOLDER = resources.files("windlass.engines.redis").joinpath("lua")
VERBS = tuple(sorted(file.name.removesuffix(".lua") for file in _FOLDER.iterdir() if file.name.endswith(".lua")))
_MODULES = tuple(sorted(file.name.removesuffix(".lua") for file in _FOLDER.joinpath("modules").iterdir()))
_BEFORE = ("base", "telling", "splicing")
"""The parts that what a verb does first may use."""
_WITH = re.compile(r"^-- with:(.*)$", re.MULTILINE)
_FIRST = re.compile(r"^-- first:.*?^-- then:$", re.MULTILINE | re.DOTALL)
_USED = re.compile(rf"\b({'|'.join(_MODULES)})\.(?!\.)")
_NUMBERS = {
    "BATCH": BATCH,
    "ATTEMPTS_KEPT": ATTEMPTS_KEPT,
    "STEPS_KEPT": STEPS_KEPT,
    "LINE_COST": LINE_COST,
    "POISON_CRASHES": POISON_CRASHES,
    "SUSPECT_LOSSES": SUSPECT_LOSSES,
}
_COMMENT = re.compile(r"--[^\n]*")
_CONSTANTS = re.compile(r"^local ([A-Z][A-Z_, ]*) = (-?[0-9][-0-9, ]*)$", re.MULTILINE)
_TOKEN = re.compile(r"'[^'\n]*'|--[^\n]*|\b[A-Z][A-Z_]+\b")


@cache
def script(name: str) -> Script:
    """The script of a verb."""
    verb = _read(f"{name}.lua")
    found = _WITH.search(verb)
    assert found is not None, f"{name}.lua names what it is put together from"
    named = found[1].split()
    at_once = [name for name in named if name in _MODULES]
    parts = {part: _read("parts", f"{part}.lua") for part in ("base", *named) if part not in _MODULES}
    first = [*(parts.pop(part) for part in _BEFORE if part in parts), *_FIRST.findall(verb)]
    assert not _used(*first), f"what {name}.lua does first cannot use what is defined later"
    verb = _FIRST.sub("", verb)
    rarely = sorted(_used(*parts.values(), verb, *map(_module, at_once)) - set(at_once))
    declared = "\n".join(f"local {module} = {{}}" for module in at_once)
    if rarely:
        declared += _read("parts", "rarely.lua")
        declared += "\n".join(f"local {module} = setmetatable({{}}, ASLEEP)" for module in rarely)
    defined = [*parts.values(), *map(_module, at_once), _defined(rarely)]
    return Script(name, _inlined("\n".join([*first, declared, *defined, _body(verb)])))


def _read(*path: str) -> str:
    return _FOLDER.joinpath(*path).read_text("utf-8")


def _used(*sources: str) -> set[str]:
    """The modules that sources use, and those that they use."""
    used: set[str] = set()
    found = {module for source in sources for module in _USED.findall(_COMMENT.sub("", source))}
    while found:
        used |= found
        found = {
            other for module in found for other in _USED.findall(_COMMENT.sub("", _read("modules", f"{module}.lua")))
        } - used
    return used


def _module(module: str) -> str:
    return f"do\n{_read('modules', f'{module}.lua')}\nend"


def _defined(modules: Sequence[str]) -> str:
    """What defines the modules that are used rarely, all of them at once."""
    if not modules:
        return ""
    awake = "\n".join(f"setmetatable({module}, nil)" for module in modules)
    return "\n".join(["define = function()", awake, *map(_module, modules), "end"])


def _body(verb: str) -> str:
    """The verb as a function of its own: Lua lets one have two hundred local variables."""
    return f"return (function()\n{verb}\nend)()"


def _inlined(source: str) -> bytes:
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
    return "\n".join(line.rstrip() for line in lines if line.strip()).encode()
