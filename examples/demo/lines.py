"""A look at the store in plain lines, for logs, pipes and terminals that cannot draw; and the words at the end."""

from __future__ import annotations

from collections.abc import Iterator

from look import Look, News
from windlass import State
from windlass.core.redact import plain

NEWS_PER_LOOK = 6
LOOKING = (
    "  windlass status                            # what is where",
    "  windlass dead list                         # what died, and of what",
)


def status(look: Look) -> str:
    """One line of figures."""
    counts = look.counts
    return (
        f"{look.passed_s:5.1f} s  workers {len(look.workers)}  ready {counts[State.READY]}  "
        f"running {counts[State.RUNNING]}  succeeded {counts[State.SUCCEEDED]}  retried {look.retried}  "
        f"dead {counts[State.DEAD]}  cancelled {counts[State.CANCELLED]}  {look.rate:.0f} jobs/s"
    )


def told(news: list[News]) -> Iterator[str]:
    """A line for each, and of those that succeeded only so many as there is room for."""
    rare = [one for one in news if one.kind != "succeeded"]
    common = [one for one in news if one.kind == "succeeded"]
    room = max(1, NEWS_PER_LOOK - len(rare))
    for one in sorted([*rare, *common[-room:]], key=lambda one: one.at_us):
        yield f"         {one.kind:<9}  {one.task} {plain(one.about)}: {plain(one.word)}"
    if len(common) > room:
        yield f"         … and {len(common) - room} more succeeded"


def summary(look: Look) -> Iterator[str]:
    """What came of all jobs, when nobody works any more."""
    counts = look.counts
    left = sum(counts.values()) - look.ended
    yield f"{sum(counts.values()):,} jobs were sent. What became of them, as the store has it:"
    yield ""
    yield f"  {counts[State.SUCCEEDED]:>7,}  succeeded"
    yield f"  {look.retried:>7,}  retried (attempts after a failed one)"
    yield f"  {counts[State.DEAD]:>7,}  dead, kept with their errors for people to look at"
    yield f"  {counts[State.CANCELLED]:>7,}  cancelled"
    yield f"  {left:>7,}  left waiting: a worker that comes later would run them"


def next_steps(kept_url: str | None) -> Iterator[str]:
    """What to type next: on the store that was kept, or on a new one in this folder."""
    yield "Try next:"
    yield ""
    yield "  . .venv/bin/activate"
    if kept_url is not None:
        yield f"  export WINDLASS_URL='{kept_url}'"
        yield from LOOKING
    yield "  windlass worker examples/demo/tasks.py     # runs jobs until Ctrl-C"
    yield ""
    yield f"and in a second terminal, after the same first line{'' if kept_url is None else 's'}:"
    yield ""
    yield "  windlass call tasks.thumbnail cat.jpg --wait"
    yield "  windlass call tasks.import_prices handwritten.csv 4"
    if kept_url is None:
        yield from LOOKING
        yield ""
        yield "DEMO_SECONDS=300 make demo lasts longer; DEMO_KEEP=1 make demo keeps its store."
