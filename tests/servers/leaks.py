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
    tag = f"{{{namespace.name}}}".encode()
    with namespace.client() as client:
        for name in sorted(namespace.keys()):
            type_ = client.type(name).decode()
            key = key_of(name.removeprefix(tag + b":"))
            if key is None:
                yield f"{name!r}, a {type_}, is not in the key map."
            elif key.type != type_:
                yield f"{name!r} is a {type_}, and in the key map a {key.type}."
            if client.pttl(name) != -1:
                yield f"{name!r} would go by itself."
