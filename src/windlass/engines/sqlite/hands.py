"""Everything an open engine holds, and the order in which it is let go."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from windlass.core.clock import Clock
from windlass.core.errors import StoreUnavailable
from windlass.engines.locks import ClaimLocks
from windlass.engines.sqlite.commit import Committer, Insert
from windlass.engines.sqlite.files import Paths, Presence, Reserve
from windlass.engines.sqlite.gate import Gate
from windlass.engines.sqlite.listen import Bells
from windlass.engines.sqlite.owners import Owners
from windlass.engines.sqlite.readers import Readers


class Hands:
    """Everything an open engine holds; a forked child lets go of it all and opens its own."""

    def __init__(self, paths: Paths, clock: Callable[[], Clock], reserve_bytes: int, plain: Insert) -> None:
        self.paths = paths
        self.gate = Gate(paths)
        try:
            self.presence = Presence(paths)
        except BaseException:
            self.gate.close()
            raise
        self.reserve = Reserve(paths, reserve_bytes)
        self.owners = Owners(paths)
        self.claim_locks = ClaimLocks(paths.claims)
        self.bells = Bells(paths)
        self.readers = Readers(paths, self.gate)
        self.committer = Committer(paths, self.gate, self.reserve, clock, plain, self.bells.signal)

    def close(self, *, clean: bool = True) -> None:
        """Listeners first, then readers, then the writer: nobody is left waiting for one who has gone.

        Whatever cannot be closed, the rest is.
        """
        with ExitStack() as rest:
            rest.callback(self.gate.close)
            rest.callback(self._leave, clean=clean)
            rest.callback(self.owners.close)
            rest.callback(self.committer.close)
            rest.callback(self.readers.close)
            self.bells.close()

    def _leave(self, *, clean: bool) -> None:
        try:
            self.gate.run(lambda: self.presence.leave(clean=clean))
        except StoreUnavailable:
            # Whoever holds the gate has the store open as well, and is not the last one out.
            self.presence.leave(clean=False)

    def hold_still(self) -> None:
        """Before a fork: no transaction may be open.

        SQLite's memory of the locks it holds is copied into the child, where nobody would ever let go of them.
        """
        self.gate.hold_still()
        self.readers.hold_still()

    def go_on(self) -> None:
        """After a fork, in the parent."""
        self.readers.go_on()
        self.gate.go_on()

    def forget(self) -> None:
        """In a forked child: locks by flock are the parent's, and must not outlive it here.

        A copy of the gate's descriptor would keep the gate shut for ever if the parent died in a commit.
        """
        self.owners.forget()
        self.presence.forget()
        self.gate.forget()
