"""Text that may come from anywhere, made so that it can be stored."""

from __future__ import annotations


def storable(text: str) -> str:
    """The text without what UTF-8 cannot hold: half a character, as in a file name that is not UTF-8."""
    return text.encode(errors="backslashreplace").decode()
