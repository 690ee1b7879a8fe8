"""The shop's web site: it sends jobs until it is told to stop, and cancels reports that nobody waits for any more."""

from __future__ import annotations

import random
import signal
import sys
import threading
from collections.abc import Iterator
from itertools import count

import tasks
from windlass.worker.lifeline import hold_on_to

STEP_S = 0.25
NAMES = ("ada", "alan", "anita", "barbara", "donald", "edsger", "grace", "john", "leslie", "niklaus", "radia")
SUBJECTS = ("Your order is on its way", "Your invoice", "We have it in blue again", "How do you like it?")
SUPPLIERS = ("north", "handwritten", "harbour", "south")
PAGES = ("/", "/boats", "/ropes", "/winches", "/basket")


def steps() -> Iterator[None]:
    """What happens in the shop, a quarter of a second at a time. Everything there is happens in the first second."""
    for step in count():
        if step % 2 == 0:
            to = f"{random.choice(NAMES)}@{'old.test' if step % 6 == 0 else 'bay.test'}"
            tasks.send_mail.delay(to, random.choice(SUBJECTS))
        if step % 4 == 0:
            tasks.thumbnail.delay(f"photo-{step // 4 + 1:03}.jpg")
        if step % 16 == 1:
            tasks.count_visit.delay_many([(random.choice(PAGES),) for _ in range(random.randint(300, 1200))])
        if step % 10 in {0, 1}:
            supplier = SUPPLIERS[(step // 10 * 2 + step % 10) % len(SUPPLIERS)]
            tasks.import_prices.delay(f"{supplier}-{step // 10 + 1}.csv", rows=random.randint(20, 60))
        yield


def reports() -> Iterator[None]:
    """One customer after another asks for a report and closes the page after a few seconds."""
    for number in count():
        report = tasks.yearly_report.delay(2025 - number % 9, random.choice(NAMES).title())
        for _ in range(2 if number == 0 else random.randint(10, 18)):
            yield
        report.cancel("the customer closed the page")
        for _ in range(4):
            yield


def main() -> None:
    """Sends until SIGTERM or SIGINT comes."""
    asked = threading.Event()

    def ask(_number: int, _frame: object) -> None:
        asked.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask)
    hold_on_to(int(sys.argv[1]), STEP_S)
    with tasks.app:
        for _ in zip(steps(), reports(), strict=True):
            if asked.wait(STEP_S):
                break


if __name__ == "__main__":
    main()
