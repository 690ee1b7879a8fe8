"""What a proxy does to the bytes that pass: values, set as a whole and read with every piece."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Way:
    """One direction: its bytes pass, are lost, or wait until they may pass; each piece of them `delay_s` later."""

    fate: Literal["pass", "swallow", "hold"] = "pass"
    delay_s: float = 0.0


@dataclass
class Spoiler:
    """Picks every n-th request that holds these bytes; its reply and its connection are cut after so many bytes."""

    every: int = 1
    holding: bytes = b""
    times: int | None = None
    keep: int = 0
    seen: int = field(default=0, init=False)
    spoilt: int = field(default=0, init=False)

    def picks(self, request: bytes) -> bool:
        """Asked once for each request, when its reply begins: the server has done what it was asked for."""
        if self.holding not in request or self.spoilt == self.times:
            return False
        self.seen += 1
        if self.seen % self.every:
            return False
        self.spoilt += 1
        return True


@dataclass(frozen=True)
class Faults:
    """Everything that is wrong now."""

    to_server: Way = Way()
    to_client: Way = Way()
    spoiler: Spoiler | None = None


@dataclass(frozen=True)
class Counts:
    """What has gone through since the proxy was started."""

    connections: int = 0
    """Those that were accepted."""
    open: int = 0
    to_server: int = 0
    to_client: int = 0
    """Bytes that were passed on."""
    swallowed: int = 0
    """Bytes that were lost, both ways."""
    spoilt: int = 0
    """Replies that were dropped or cut."""
