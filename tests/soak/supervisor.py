"""A real supervisor with real runners, whose claims and settles are written down: `python -m tests.soak.supervisor`.

It differs from `windlass worker` in its engine alone: that of the URL with a recorder beside it, and, where the story
wants it of sqlite, deaths told by lease.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from tests.soak.checker import GIVEN_BACK
from tests.soak.recorder import Recorder
from windlass.core.settings import Settings
from windlass.engines import connect
from windlass.engines.protocol import Beat, Claims, Engine, Order, Orders, Settlement, Sweep, Swept, Verdict
from windlass.engines.sqlite import SqliteEngine
from windlass.observe import logs
from windlass.worker.plan import Plan
from windlass.worker.supervisor import Supervisor


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """What a supervisor has to do, and where it writes down what it does."""

    plan: Plan
    record: str
    death: Literal["lock", "lease"] = "lock"


class Recording:
    """An engine beside which is written down what a worker asks of it, and the answers."""

    def __init__(self, engine: Engine, recorder: Recorder) -> None:
        self._engine = engine
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def renew(self, beat: Beat, /) -> Orders:
        self._recorder.worker = beat.card.worker.hex()
        return self._engine.renew(beat)

    def claim(self, order: Order, /) -> Claims:
        call = self._recorder.invoke("claim", note=str(order.ticket))
        found = self._engine.claim(order)
        if found.claims:
            taken = [(claim.id.hex(), claim.fence, claim.lane or "") for claim in found.claims]
            self._recorder.ok("claim", call, taken, note=str(order.ticket))
        return found

    def settle(self, settlements: Sequence[Settlement], /) -> list[Verdict]:
        call = self._recorder.invoke("settle", [(s.id.hex(), s.fence, _asked(s)) for s in settlements])
        verdicts = self._engine.settle(settlements)
        answers = [(s.id.hex(), s.fence, v.value) for s, v in zip(settlements, verdicts, strict=True)]
        self._recorder.ok("settle", call, answers)
        return verdicts

    def sweep(self, sweep_: Sweep, /) -> Swept:
        call = self._recorder.invoke("sweep")
        swept = self._engine.sweep(sweep_)
        if swept.lost or swept.workers:
            self._recorder.ok("sweep", call, note=f"{swept.workers} {swept.lost}")
        return swept


def _asked(settlement: Settlement) -> str:
    return settlement.transition.to.value if settlement.outcome is not None else GIVEN_BACK


def main() -> None:
    """Works until a signal comes."""
    given = msgspec.json.decode(sys.argv[1], type=Assignment)
    recorder = Recorder(Path(given.record))

    def sqlite(url: str, settings: Settings) -> Engine:
        path = connect.sqlite_path(url)
        return SqliteEngine(path, settings.limits, death=given.death, disk_floor=0, disk_reserve=0)

    def recording(make: connect.Maker) -> connect.Maker:
        return lambda url, settings: cast("Engine", Recording(make(url, settings), recorder))

    connect.OWN["sqlite"] = sqlite
    connect.OWN |= {scheme: recording(make) for scheme, make in connect.OWN.items()}
    logs.set_up(given.plan.level, "console", None)
    Supervisor(given.plan).run()


if __name__ == "__main__":
    main()
