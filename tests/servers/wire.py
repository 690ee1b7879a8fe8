"""One connection through a proxy: two pumps, and whatever is wrong between them."""

from __future__ import annotations

import asyncio
import socket
import struct
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable
from contextlib import suppress

from tests.servers.faults import Faults, Way

PIECE = 65_536
RESET = struct.pack("ii", 1, 0)
"""With this SO_LINGER, closing a socket sends RST."""

Send = Callable[[StreamWriter, bytes], Awaitable[None]]


class Cut(Exception):
    """This connection is over, by a fault."""


class Wire:
    """A client, its server, and the bytes that were passed on, lost and spoilt between them."""

    def __init__(self, faults: Callable[[], Faults], change: Callable[[], Awaitable[object]]) -> None:
        self._faults = faults
        self._change = change
        self._request = b""
        """What the client has sent since the last reply."""
        self._room: int | None = None
        """How much more of this reply may pass; None if it is not spoilt."""
        self._ends: list[StreamWriter] = []
        self.to_server = self.to_client = self.swallowed = self.spoilt = 0

    async def carry(self, reader: StreamReader, writer: StreamWriter, port: int) -> None:
        """Until both sides have ended, one fails, or a fault cuts it."""
        self._ends = [writer]
        try:
            try:
                server_reader, server_writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await self._passing(self._to_server)
                self.reset()
                return
            self._ends.append(server_writer)
            for end in self._ends:
                # So that `drain` waits for the last byte. TLS stops for good where nothing may be waiting.
                end.transport.set_write_buffer_limits(high=0 if end.can_write_eof() else 1)
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(self._to_server, reader, server_writer, self._send_request))
                pumps.create_task(self._pump(self._to_client, server_reader, writer, self._send_reply))
        except* Cut:
            pass
        except* OSError:
            self.reset()  # as one side was
        finally:
            await self._close()

    def reset(self) -> None:
        """Both sides are to get RST where they would get the end of a stream."""
        for end in self._ends:
            open_socket = end.get_extra_info("socket")
            if open_socket is not None and open_socket.fileno() >= 0:
                open_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    async def _pump(self, way: Callable[[], Way], reader: StreamReader, writer: StreamWriter, send: Send) -> None:
        lost = False
        try:
            while piece := await reader.read(PIECE):
                lost = await self._is_lost(way, lost)
                if lost:
                    self.swallowed += len(piece)
                else:
                    await send(writer, piece)
        except OSError:
            await self._passing(way)
            raise
        await self._passing(way)
        if not writer.can_write_eof():  # TLS knows no half-closed connections
            raise Cut
        writer.write_eof()

    async def _send_request(self, writer: StreamWriter, piece: bytes) -> None:
        self._request += piece
        self.to_server += len(piece)
        writer.write(piece)
        await writer.drain()

    async def _send_reply(self, writer: StreamWriter, piece: bytes) -> None:
        if self._request:
            self._begin_reply()
        passed = piece[: self._room]
        self.to_client += len(passed)
        self.swallowed += len(piece) - len(passed)
        writer.write(passed)
        await writer.drain()
        if self._room is not None:
            self._room -= len(passed)
            if not self._room:
                raise Cut

    def _begin_reply(self) -> None:
        request, self._request = self._request, b""
        spoiler = self._faults().spoiler
        self._room = spoiler.keep if spoiler and spoiler.picks(request) else None
        self.spoilt += self._room is not None

    def _to_server(self) -> Way:
        return self._faults().to_server

    def _to_client(self) -> Way:
        return self._faults().to_client

    async def _is_lost(self, way: Callable[[], Way], lost: bool) -> bool:
        """Waits as long as this piece has to. Once bytes are missing in a stream, no more of it can pass."""
        await asyncio.sleep(way().delay_s)
        while way().fate == "hold":
            await self._change()
        return lost or way().fate == "swallow"

    async def _passing(self, way: Callable[[], Way]) -> None:
        """Nobody learns of an end or a reset, either, through a way that lets nothing pass."""
        while way().fate != "pass":
            await self._change()

    async def _close(self) -> None:
        for end in self._ends:
            end.transport.abort()
        for end in self._ends:
            with suppress(OSError):
                await end.wait_closed()
