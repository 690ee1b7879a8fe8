"""Small shared facts that people change: read, changed and written back, and nobody's change is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from windlass.core.ids import JobId, show_id
from windlass.core.limits import DEFAULT, Limits
from windlass.engines.protocol import Engine, Put

RETRIES_KEPT = 20

_ids = msgspec.json.Decoder(tuple[str, ...]).decode


def change(
    engine: Engine, key: str, make: Callable[[bytes | None], bytes | None], *, ttl_us: int | None = None
) -> bool:
    """Replaces the fact by what `make` makes of it (None: no fact); False where that is what it was."""
    while True:
        (fact,) = engine.read([key])
        there = None if fact is None else fact.value
        wanted = make(there)
        if wanted == there:
            return False
        put = Put(key=key, value=wanted, expect=0 if fact is None else fact.version, ttl_us=ttl_us)
        (written,) = engine.write([put])
        if written.done:
            return True
        # Somebody else has changed it meanwhile, so the store goes on; look again.


# ── jobs that were sent again ───────────────────────────────────────────────────────────────────────────


def mark_retried(engine: Engine, job_id: JobId, by: JobId, limits: Limits = DEFAULT) -> None:
    """Keeps with an ended job which new one was sent in its place; the mark goes when a dead job's record does."""

    def add(there: bytes | None) -> bytes:
        known = _read(there)
        new = show_id(by)
        return msgspec.json.encode(known if new in known else (*known, new)[-RETRIES_KEPT:])

    change(engine, _key(job_id), add, ttl_us=max(1, limits.keep_dead_us))


def retried_by(engine: Engine, ids: Sequence[JobId]) -> list[tuple[str, ...]]:
    """For each job the ids of those that were sent in its place, the newest last."""
    return [_read(None if fact is None else fact.value) for fact in engine.read([_key(job_id) for job_id in ids])]


def _key(job_id: JobId) -> str:
    return f"retried/{job_id.hex()}"


def _read(value: bytes | None) -> tuple[str, ...]:
    try:
        return () if value is None else _ids(value)
    except msgspec.DecodeError:
        return ()
