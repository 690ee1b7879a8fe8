"""read and write: small shared values with compare-and-set and expiry, and the few that steer the engine."""

from __future__ import annotations

from windlass.core.gates import read_gate
from windlass.engines.checks import flow_of, is_gate
from windlass.engines.memory.admission import Admission
from windlass.engines.memory.store import Chore, Flow, Store
from windlass.engines.protocol import Fact, Put, Written


def read(store: Store, key: str, now_us: int) -> Fact | None:
    """The fact, unless it has expired."""
    fact = store.facts.get(key)
    if fact is not None and fact.expires_us is not None and fact.expires_us <= now_us:
        return None
    return fact


def write(admission: Admission, put: Put, now_us: int) -> Written:
    """Writes if what is there is what the writer expects."""
    store = admission.store
    there = read(store, put.key, now_us)
    version = 0 if there is None else there.version
    if put.expect is not None and put.expect != version:
        return Written(done=False, version=version)
    if put.value is None:
        store.facts.pop(put.key, None)
        store.gates.pop(put.key, None)
        store.buckets.pop(put.key, None)
        return Written(done=True, version=0)
    if there is None:
        # The rule before it may have expired without having been swept.
        store.buckets.pop(put.key, None)
    # One count for all facts: a key that was deleted and written again never shows an old version.
    store.fact_version = version = max(store.fact_version + 1, now_us)
    expires_us = None if put.ttl_us is None else now_us + put.ttl_us
    store.facts[put.key] = Fact(key=put.key, value=put.value, version=version, expires_us=expires_us)
    if is_gate(put.key):
        store.gates[put.key] = read_gate(put.value)
    flow_id = flow_of(put.key)
    if flow_id is not None:
        flow = store.flows.setdefault(flow_id, Flow())
        if not flow.started:
            flow.started = True
            store.chores.append(Chore("start", flow_id, note=tuple(flow.rows.values())))
    return Written(done=True, version=version)
