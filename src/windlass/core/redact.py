"""What may be shown: no secret leaves the process, and no text can act on the screen that shows it.

Logs, tables, errors and answers go through here. `redact` masks a value as people may see it, `unmask` puts the masked
parts back into what they made of it, `plain` makes any text safe for a terminal.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from windlass.core.secret import Secret, is_marked

MASK: Final = "***"

SECRET_NAMES: Final = ("password", "passwd", "secret", "token", "api_key", "private_key", "credential", "authorization")
"""Words in the name of an argument, a field or a header that make its value a secret: the setting `secret_names`."""

_SECRET_PARAMETER: Final = re.compile(
    r"(?i)([?&;#][^=&;#\s]*(?:pass|pwd|secret|token|key|auth|credential)[^=&;#\s]*=)[^&;#\s]*"
)
_URL_IN_TEXT: Final = re.compile(r"(?i)\b[a-z][a-z0-9+.-]{0,31}://[^\s\"'<>`]+")
# No class holds the character that follows it: a pattern that could backtrack would hang on a hostile URL.
_HOST: Final = r"(?:[^:,@\s\[\]]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
_PLAIN_HOSTS: Final = re.compile(rf"{_HOST}(?:,{_HOST})*")


def redact_url(url: str) -> str:
    """The URL with `***` for its password and secret-looking parameters; never raises, masks if in doubt."""
    scheme, separator, rest = url.partition("://")
    # Three slashes mean a path and no authority: `sqlite:///a@b.db` has no password to hide.
    if separator and not rest.startswith("/"):
        rest = _redact_authority(rest)
    return _SECRET_PARAMETER.sub(rf"\g<1>{MASK}", f"{scheme}{separator}{rest}")


def redact_text(text: str) -> str:
    """The text with every URL in it redacted: drivers quote the whole URL in their error messages."""
    return _URL_IN_TEXT.sub(lambda found: redact_url(found.group()), text) if "://" in text else text


def _redact_authority(rest: str) -> str:
    at = rest.rfind("@")
    if at < 0:
        return rest
    # Passwords are often pasted without escaping; one with "/", "?" or "@" must be hidden whole, so all up
    # to the last "@" counts as user and password, unless what stands before the path is plainly a host.
    head = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if "@" not in head and _PLAIN_HOSTS.fullmatch(head):
        return rest
    user, colon, _ = rest[:at].partition(":")
    return f"{user}:{MASK}{rest[at:]}" if colon else rest


# ── values ──────────────────────────────────────────────────────────────────────────────────────────────


def redact(value: Any, names: Iterable[str] = SECRET_NAMES) -> Any:
    """The value with `***` for whatever was sent as a `Secret` or stands under a secret-looking name, at any depth, and
    no password in its URLs.

    It takes what JSON can hold, and secrets. A value without a name, such as an argument by position, is only looked at
    for URLs.
    """
    return _redact(value, _words(names))


def _words(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(word for word in map(_squeezed, names) if word)


def _squeezed(name: str) -> str:
    """`X-Api-Key`, `apiKey` and `api_key` are one name."""
    return "".join(filter(str.isalnum, name)).casefold()


def _is_secret(name: object, words: tuple[str, ...]) -> bool:
    if not isinstance(name, str):
        return False
    squeezed = _squeezed(name)
    return any(word in squeezed for word in words)


def _redact(value: Any, words: tuple[str, ...]) -> Any:
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, Secret):
        return MASK
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {_shown_key(key): MASK if _is_secret(key, words) else _redact(inner, words) for key, inner in items}
    if isinstance(value, (list, tuple)):
        found = cast("Sequence[Any]", value)
        if _is_secret_pair(found, words):
            return [found[0], MASK]  # headers are often sent as pairs
        return [_redact(inner, words) for inner in found]
    return value


def _is_secret_pair(found: Sequence[Any], words: tuple[str, ...]) -> bool:
    return len(found) == 2 and _is_secret(found[0], words) and "://" not in found[0]


def _shown_key(key: Any) -> Any:
    return redact_text(key) if isinstance(key, str) else key


def unmask(edited: Any, original: Any, names: Iterable[str] = SECRET_NAMES) -> Any:
    """What a person made of `redact(original)`, with the original wherever the mask was left as it stood."""
    return _unmask(edited, original, _words(names))


def _unmask(edited: Any, original: Any, words: tuple[str, ...]) -> Any:
    if isinstance(original, Secret):
        return _unmask_secret(edited, cast("Secret[Any]", original))
    if isinstance(edited, str) and isinstance(original, str):
        return original if edited == redact_text(original) else edited
    if isinstance(edited, Mapping) and isinstance(original, Mapping):
        before = cast("Mapping[Any, Any]", original)
        spelled = {_shown_key(key): key for key in before}
        made: dict[Any, Any] = {}
        for shown, inner in cast("Mapping[Any, Any]", edited).items():
            key = spelled.get(shown, shown)
            kept = inner == MASK and key in before and _is_secret(key, words)
            made[key] = before[key] if kept else _unmask(inner, before.get(key), words)
        return made
    if isinstance(edited, (list, tuple)) and isinstance(original, (list, tuple)):
        now, then = cast("Sequence[Any]", edited), cast("Sequence[Any]", original)
        if _is_secret_pair(then, words) and list(now) == [then[0], MASK]:
            return list(then)
        return [_unmask(inner, then[place] if place < len(then) else None, words) for place, inner in enumerate(now)]
    return cast("Any", edited)


def _unmask_secret(edited: Any, original: Secret[Any]) -> Any:
    """Another value in its place is a secret as well, though nobody could see that it was one; None is none."""
    if edited == MASK:
        return original
    return edited if edited is None or is_marked(edited) else Secret(edited)


def masked_at(value: Any, path: str = "") -> str | None:
    """Where a mask still stands in for a secret, as `kwargs.auth.token`; None: nowhere. To store it would lose it."""
    if isinstance(value, str):
        urls = (found.group() for found in _URL_IN_TEXT.finditer(value))
        return path if value == MASK or any(MASK in url for url in urls) else None
    inner: Iterable[tuple[str, Any]] = ()
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        inner = ((f"{path}.{key}" if path else str(key), one) for key, one in items)
    elif isinstance(value, (list, tuple)):
        inner = ((f"{path}[{place}]", one) for place, one in enumerate(cast("Sequence[Any]", value)))
    return next((found for where, one in inner if (found := masked_at(one, where)) is not None), None)


# ── text on a screen ────────────────────────────────────────────────────────────────────────────────────

_ACTING: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Control characters, invisible ones that turn the direction of a line, halves of characters, ends of lines."""


def plain(text: str, *, lines: bool = False) -> str:
    """The text with its control characters spelled out (`\\x1b`): it can neither move a cursor nor hide what it says.

    With `lines`, ends of lines and tabs stay, for tracebacks and logs.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character
        if (lines and character in "\n\t") or unicodedata.category(character) not in _ACTING
        else _spelled(character)
        for character in text
    )


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
