"""A TCP proxy in front of a server, which spoils what passes as the test says.

    with Proxy(server.port) as proxy:
        engine = connect(server.url(namespace, port=proxy.port))
        proxy.black_hole()

When a method has returned, its fault is there: nothing passes any more by the rules of before. Each method replaces
what was wrong until then; `pass_on` mends all. A connection out of which bytes were lost is never mended: nothing more
of that direction passes until somebody ends it.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from asyncio import StreamReader, StreamWriter
from collections.abc import Coroutine
from typing import Any, TypeVar

from tests.servers.faults import Counts, Faults, Spoiler, Way
from tests.servers.ports import free_port
from tests.servers.wire import Wire
from tests.soak.waiting import HANG_S

T = TypeVar("T")

SWALLOW, HOLD = Way("swallow"), Way("hold")


class Proxy:
    """Listens on a port of its own as long as the test lasts, in a thread of its own."""

    def __init__(self, server_port: int, *, tls: ssl.SSLContext | None = None) -> None:
        """With `tls`, clients speak TLS and the server behind it does not."""
        self._server_port = server_port
        self._tls = tls
        self.port = 0
        self._faults = Faults()
        self._change = asyncio.Event()
        self._listener: asyncio.Server | None = None
        self._wires: dict[asyncio.Task[Any], Wire] = {}
        self._ended: list[Wire] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        self._run(self._find_port())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._refuse())
        self._run(self._reset())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(HANG_S)
        self._loop.close()

    def url(self, server_url: str) -> str:
        """The URL of the server, by way of the proxy."""
        return server_url.replace(f":{self._server_port}", f":{self.port}")

    # ── what is wrong ───────────────────────────────────────────────────────────────────────────────────

    def pass_on(self) -> None:
        """Nothing."""
        self._set(Faults())

    def reset_all(self) -> None:
        """Every connection that is there gets RST, on both sides, once. New ones are served."""
        self._run(self._reset())

    def refuse(self) -> None:
        """Nobody can connect. Connections that are there stay."""
        self._set(Faults())
        self._run(self._refuse())

    def black_hole(self) -> None:
        """Connections stay and are made, and every byte is lost, both ways; no end of one is passed on."""
        self._set(Faults(SWALLOW, SWALLOW))

    def half_open(self) -> None:
        """The server hears the client, the client does not hear the server."""
        self._set(Faults(to_client=SWALLOW))

    def hold(self) -> None:
        """Bytes wait, both ways, and arrive late, when all is mended: a partition that heals."""
        self._set(Faults(HOLD, HOLD))

    def delay(self, *, to_server_ms: float = 0, to_client_ms: float = 0) -> None:
        """Every piece of a stream comes that much later."""
        self._set(Faults(Way(delay_s=to_server_ms / 1000), Way(delay_s=to_client_ms / 1000)))

    def drop_replies(self, every: int = 1, *, holding: bytes = b"", times: int | None = None) -> None:
        """The server does what every n-th request asks for, its reply is lost, and the connection is cut.

        A request is what a client sends until it is answered; those without the bytes of `holding` are not counted.
        """
        self._set(Faults(spoiler=Spoiler(every, holding, times)))

    def cut_replies(self, after_bytes: int, every: int = 1, *, holding: bytes = b"", times: int | None = None) -> None:
        """As `drop_replies`, in the middle of the reply."""
        self._set(Faults(spoiler=Spoiler(every, holding, times, keep=after_bytes)))

    # ── what has happened ───────────────────────────────────────────────────────────────────────────────

    def counts(self) -> Counts:
        """What has gone through until now."""
        return self._run(self._count())

    # ── in the thread ───────────────────────────────────────────────────────────────────────────────────

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(HANG_S)

    def _set(self, faults: Faults) -> None:
        self._run(self._switch(faults))

    async def _switch(self, faults: Faults) -> None:
        self._faults = faults
        self._change.set()
        self._change = asyncio.Event()
        if self._listener is None:
            await self._listen()

    async def _changed(self) -> None:
        await self._change.wait()

    async def _find_port(self) -> None:
        while self._listener is None:
            self.port = free_port()
            try:
                await self._listen()
            except OSError:
                continue  # somebody was quicker

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self._tls)

    async def _refuse(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        wire = self._wires[task] = Wire(lambda: self._faults, self._changed)
        try:
            await wire.carry(reader, writer, self._server_port)
        except asyncio.CancelledError:
            pass  # by `_reset`, which waits for the end of it
        finally:
            del self._wires[task]
            self._ended.append(wire)

    async def _reset(self) -> None:
        tasks = list(self._wires)
        for task in tasks:
            self._wires[task].reset()
            task.cancel()
        await asyncio.gather(*tasks)

    async def _count(self) -> Counts:
        wires = [*self._ended, *self._wires.values()]
        return Counts(
            connections=len(wires),
            open=len(self._wires),
            to_server=sum(wire.to_server for wire in wires),
            to_client=sum(wire.to_client for wire in wires),
            swallowed=sum(wire.swallowed for wire in wires),
            spoilt=sum(wire.spoilt for wire in wires),
        )
