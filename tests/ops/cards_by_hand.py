"""Cards as workers write them, made by hand: a worker that says what the test wants it to say."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

import msgspec

from windlass.core.clock import SystemClock
from windlass.core.ids import new_id, show_id
from windlass.core.info import Active, Info, Process, encode_info
from windlass.engines.protocol import Beat, Card, Engine, Interest, Order, Orders

clock = SystemClock()


class HandWorker:
    """A worker without anything behind it but its card."""

    def __init__(self, engine: Engine, name: str = "box", host: str = "web", **said: object) -> None:
        self._engine = engine
        self.card = Card(worker=new_id(), name=name, host=host, slots=4)
        self.info = msgspec.structs.replace(Info(beat_us=clock.now_us()), **said)
        self._beats = self._tickets = 0
        self.beat()

    def says(self, **said: object) -> Orders:
        """It beats, and says so from now on."""
        self.info = msgspec.structs.replace(self.info, **said)
        return self.beat()

    def beat(self, *, bye: bool = False) -> Orders:
        return self.beats_at(max(clock.now_us(), self.info.beat_us + 1), bye=bye)

    def beats_at(self, beat_us: int, *, bye: bool = False) -> Orders:
        """It beats, and says that it is that time."""
        self.info = msgspec.structs.replace(self.info, beat_us=beat_us)
        self.card = msgspec.structs.replace(self.card, info=encode_info(self.info))
        orders = self._engine.renew(Beat(card=self.card, beat=self._beats, bye=bye))
        self._beats += 1
        return orders

    def leave(self) -> None:
        """Its last beat: its card goes."""
        self.beat(bye=True)

    def claim(self) -> list[str]:
        """Takes what is ready; the ids."""
        self._tickets += 1
        claims = self._engine.claim(Order(worker=self.card.worker, ticket=self._tickets)).claims
        return [show_id(claim.id) for claim in claims]

    @contextmanager
    def answering(
        self, heard: Callable[[Orders], object] = lambda _orders: None, *, bye: bool = False
    ) -> Generator[None]:
        """It beats whenever it is woken, as a heartbeat does, until it left or the block ends; bye: once, its last."""
        done = threading.Event()

        def listen() -> None:
            while not done.is_set():
                if self._engine.listen(Interest(worker=self.card.worker), 0.2):
                    orders = self.beat(bye=bye)
                    if not orders.gone:
                        heard(orders)

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def supervisor(pid: int = 10, **more: object) -> Process:
    return Process(role="supervisor", pid=pid, **more)  # pyright: ignore[reportArgumentType]


def runner(number: int, pid: int, state: str = "working", **more: object) -> Process:
    return Process(role="runner", number=number, pid=pid, state=state, **more)  # pyright: ignore[reportArgumentType]


def active(job_id: str, task: str, seconds: float) -> Active:
    """A job that began so long ago."""
    return Active(id=job_id, task=task, started_us=clock.now_us() - int(seconds * 1e6))
