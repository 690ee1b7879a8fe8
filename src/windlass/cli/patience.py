"""Looking on through an outage: who watches a store watches most of all when it is away."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from windlass.cli.output import say
from windlass.core.errors import StoreUnavailable

T = TypeVar("T")

PAUSE_S: Final = 0.5


def through_outages(look: Callable[[], T], tell: Callable[[str], object] = say) -> T:
    """What `look` sees, once the store answers; an outage is told once."""
    told = False
    while True:
        try:
            return look()
        except StoreUnavailable as error:
            if not told:
                tell(f"{error.message} Waiting for it; Ctrl-C ends this.")
            told = True
            time.sleep(PAUSE_S)
