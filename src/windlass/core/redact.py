"""No URL leaves the process with its password: logs, tables, errors and answers go through here."""

from __future__ import annotations

import re
from typing import Final

MASK: Final = "***"

_SECRET_PARAMETER: Final = re.compile(
    r"(?i)([?&;#][^=&;#\s]*(?:pass|pwd|secret|token|key|auth|credential)[^=&;#\s]*=)[^&;#\s]*"
)
_URL_IN_TEXT: Final = re.compile(r"(?i)\b[a-z][a-z0-9+.-]{0,31}://[^\s\"'<>`]+")
# No class holds the character that follows it: a pattern that could backtrack would hang on a hostile URL.
_HOST: Final = r"(?:[^:,@\s\[\]]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
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
    return _URL_IN_TEXT.sub(lambda found: redact_url(found.group()), text)


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
