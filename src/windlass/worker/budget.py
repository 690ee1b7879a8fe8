"""What a worker has of each resource, and how much of it its claims leave free. Memory is one of them, in bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from windlass.core.errors import BadValue
from windlass.core.gates import MEMORY
from windlass.core.limits import EIB, to_bytes
from windlass.core.names import check_name
from windlass.core.system import memory_limit
from windlass.engines.protocol import Claim


class Budget:
    """Never oversubscribed: what a claim needs is taken from the moment it is claimed until it is settled."""

    def __init__(self, totals: Mapping[str, int]) -> None:
        self.totals = dict(totals)

    def free(self, claims: Iterable[Claim]) -> dict[str, int]:
        """What the open claims leave."""
        free = dict(self.totals)
        for claim in claims:
            for name, amount in claim.needs:
                free[name] = max(0, free.get(name, 0) - amount)
        return free


def memory_of(claim: Claim) -> int | None:
    """How much memory the job may use; None: nobody said."""
    return next((amount for name, amount in claim.needs if name == MEMORY), None)


def read_resources(memory: int | str | None, resources: Mapping[str, int]) -> dict[str, int]:
    """What somebody says that a worker has; without a word about memory, all that its process may use."""
    if MEMORY in resources:
        raise BadValue("Memory is no resource of a name.", 'Give it by itself: memory="4GB", or --memory 4GB.')
    totals = {check_name("resource", name): _amount(name, amount) for name, amount in resources.items()}
    return {MEMORY: memory_limit() if memory is None else read_memory(memory), **totals}


def _amount(name: str, amount: object) -> int:
    if type(amount) is not int or not 1 <= amount <= EIB:
        raise BadValue(f"A worker cannot have {amount!r} of {name}.", "Give a whole number from 1 on.")
    return amount


def read_memory(memory: int | str) -> int:
    """An amount of memory that is one."""
    found = to_bytes(memory)
    if not found:
        raise BadValue("Nothing can be done with a memory of 0.", 'Give an amount such as "4GB".')
    return found
