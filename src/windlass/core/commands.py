"""Orders of people to a worker, as they are kept under `worker/<id>` in the store's facts.

A worker does an order once: it remembers the token of the last one it has seen, and the fact may be handed to it with
every beat until it expires.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from windlass.core.ids import WorkerId

Do = Literal["drain", "stop", "restart", "report"]
"""What a worker can be told.

`drain`: it takes no more jobs, lets what runs end however long that takes, then ends. `stop`: as SIGTERM, it gives
back what has not ended in its drain time. `restart`: its runners are replaced one after the other by fresh processes.
`report`: it beats now, and does nothing else.
"""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """An order to one worker."""

    do: Do
    token: str
    """New with every order: the same one twice is the same order."""


encode_command = msgspec.json.Encoder().encode
_command = msgspec.json.Decoder(Command).decode


def decode_command(value: bytes) -> Command | None:
    """The order; None where another version wrote something else."""
    try:
        return _command(value)
    except msgspec.DecodeError:
        return None


def command_key(worker: WorkerId) -> str:
    """The fact that holds the worker's order."""
    return f"worker/{worker.hex()}"
