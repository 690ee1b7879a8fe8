"""read and write: small shared values with compare-and-set and expiry, and the few that steer the engine."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.limits import Limits
from windlass.engines.checks import flow_of, is_gate
from windlass.engines.protocol import BATCH, Fact, Put, Written
from windlass.engines.sqlite.admission import Admission
from windlass.engines.sqlite.connection import Database
from windlass.engines.sqlite.statements import sql
from windlass.engines.sqlite.tx import Tx


def read(connection: Database, key: str, now_us: int) -> Fact | None:
    """The fact, unless it has expired."""
    found = connection.execute(sql("fact_read"), (key, now_us)).fetchone()
    if found is None:
        return None
    value, version, expires_us = found
    return Fact(key=key, value=value, version=version, expires_us=expires_us)


def write(tx: Tx, puts: Sequence[Put], limits: Limits) -> list[Written]:
    """Writes each if what is there is what its writer expects, and goes a step on with the chores."""
    admission = Admission(tx, limits)
    written = [_write(admission, put) for put in puts]
    admission.do_chores(BATCH)
    return written


def _write(admission: Admission, put: Put) -> Written:
    tx = admission.tx
    there = read(tx.connection, put.key, tx.now_us)
    version = 0 if there is None else there.version
    if put.expect is not None and put.expect != version:
        return Written(done=False, version=version)
    if put.value is None:
        tx.run(sql("fact_drop"), (put.key,))
        if is_gate(put.key):
            tx.run(sql("bucket_drop"), (put.key,))
        return Written(done=True, version=0)
    if there is None and is_gate(put.key):
        # The rule before it may have expired without having been swept.
        tx.run(sql("bucket_drop"), (put.key,))
    version = tx.run(sql("fact_version"), (tx.now_us,)).get
    expires_us = None if put.ttl_us is None else tx.now_us + put.ttl_us
    tx.run(sql("fact_save"), (put.key, put.value, version, expires_us))
    flow = flow_of(put.key)
    if flow is not None:
        admission.start_flow(flow)
    return Written(done=True, version=version)
