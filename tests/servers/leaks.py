"""What the redis engine must not leave behind: keys that its key map does not know, or that go by themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.servers.namespace import Namespace
from windlass.engines.redis.keymap import KEYS, Key

NAME = r"[A-Za-z0-9][A-Za-z0-9_.:-]*"
PLACES = {
    "job": r"[\s\S]{16}",
    "worker": "[0-9a-f]{32}",
    "flow": "[0-9a-f]{32}",
    "queue": NAME,
    "task": NAME,
    "lane": NAME,
    "gate": NAME,
    "unique": NAME,
    "room": rf"(?:{NAME}|\*)",
    "stream": rf"{NAME}\|[^|]*\|[^|]*\|[^|]*\|[01]",
    "ended": "[5-8]",
    "print": r"[\s\S]+",
    "span": "(?:minute|hour|day)",
    "start": "[0-9]+",
}
"""What may stand in each place of a name."""


def _pattern(key: Key) -> re.Pattern[bytes]:
    parts = re.split(r"<(\w+)>", key.name)
    text = "".join(PLACES[part] if place % 2 else re.escape(part) for place, part in enumerate(parts))
    return re.compile(text.encode())


PATTERNS = [(_pattern(key), key) for key in KEYS]


def key_of(name: bytes) -> Key | None:
    """What the map says of a key, named without its namespace."""
    return next((key for pattern, key in PATTERNS if pattern.fullmatch(name)), None)


def strays(namespace: Namespace) -> Iterator[str]:
    """A sentence for each key of a namespace that is not as the map says."""
    tag = f"{{{namespace.name}}}:".encode()
    for name, type_, ttl_ms in _looked_at(namespace):
        key = key_of(name.removeprefix(tag))
        if key is None:
            yield f"{name!r}, a {type_}, is not in the key map."
        elif key.type != type_:
            yield f"{name!r} is a {type_}, and in the key map a {key.type}."
        if ttl_ms != -1:
            yield f"{name!r} would go by itself."


LOOK = """
local answer = {}
for _, name in ipairs(ARGV) do
  answer[#answer + 1] = redis.call('TYPE', name).ok
  answer[#answer + 1] = redis.call('PTTL', name)
end
return answer
"""
AT_ONCE = 1_000


def _looked_at(namespace: Namespace) -> Iterator[tuple[bytes, str, int]]:
    """Every key with its type and its time to live; a test may leave a hundred thousand jobs."""
    names = sorted(namespace.keys())
    with namespace.client() as client:
        for start in range(0, len(names), AT_ONCE):
            some = names[start : start + AT_ONCE]
            found = client.eval(LOOK, 0, *some)
            yield from zip(some, (type_.decode() for type_ in found[::2]), found[1::2], strict=True)
