"""A network in front of an embedded cluster's brokers that can be degraded: slow, narrow, cut, deaf.

Data held back while a line is deaf arrives when the line works again, as TCP resends what a broken network lost.
A line that is cut resets its connections, and data in transit on them is lost.
"""

import asyncio
import socket
import struct
import threading
import time
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, TypeVar

from heliograph.embedded.ports import LOOPBACK

T = TypeVar("T")

_CHUNK = 64 * 1024
_UNDER_WAY = 64  # chunks of one direction of a connection that a slow line may hold
_PATIENCE = timedelta(seconds=10)
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Line:
    """How the network behaves: `delay` one way, `rate` in bytes per second per direction, what gets through.

    Without `asks` nothing from the clients reaches the brokers, without `answers` nothing comes back: both
    accept connections and stay silent. A line that is not `up` resets all connections and refuses new ones.
    """

    delay: timedelta = timedelta(0)
    rate: int | None = None
    asks: bool = True
    answers: bool = True
    up: bool = True


GOOD = Line()
CUT = Line(up=False)
DEAF = Line(asks=False, answers=False)
ONE_WAY = Line(answers=False)


@dataclass(slots=True)
class _Way:
    """One direction of all connections: whether it is open, and when it is free for the next byte."""

    open: asyncio.Event = field(default_factory=asyncio.Event)
    free_at: float = 0.0

    def reserve(self, line: Line, size: int) -> float:
        """Return when `size` bytes that are sent now will have arrived."""
        now = time.monotonic()
        if line.rate is not None:
            self.free_at = now = max(self.free_at, now) + size / line.rate
        return now + line.delay.total_seconds()


class Proxy:
    """Loopback ports that forward to other loopback ports over one line, in a separate thread."""

    def __init__(self, routes: Mapping[int, int], line: Line = GOOD) -> None:
        """Take where each port leads to; the ports are open on return unless the line is cut."""
        self._routes = dict(routes)
        self._line = GOOD
        self._loop = asyncio.new_event_loop()
        self._servers: list[asyncio.Server] = []
        self._connections: dict[asyncio.Task[None], list[asyncio.StreamWriter]] = {}
        self._asks, self._answers = _Way(), _Way()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        try:
            self.set_line(line)
        except BaseException:
            self.close()
            raise

    @property
    def line(self) -> Line:
        return self._line

    @property
    def connections(self) -> int:
        """How many connections it forwards now."""
        return len(self._connections)

    def set_line(self, line: Line) -> None:
        """Make the network behave like `line` from now on, for existing and for new connections."""
        self._do(self._set(line))

    def reset(self) -> None:
        """Reset every connection; new ones are served."""
        self._do(self._reset())

    def close(self) -> None:
        """Reset every connection and give the ports back."""
        if self._loop.is_closed():
            return
        self._do(self._set(CUT))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        done = asyncio.run_coroutine_threadsafe(work, self._loop)
        return done.result(_PATIENCE.total_seconds())

    async def _set(self, line: Line) -> None:
        self._line = line
        for way, heard in ((self._asks, line.asks), (self._answers, line.answers)):
            if heard:
                way.open.set()
            else:
                way.open.clear()
        if line.up and not self._servers:
            for port, leads_to in self._routes.items():
                self._servers.append(await self._listen(port, leads_to))
        elif not line.up:
            for server in self._servers:
                server.close()
            self._servers = []
            await self._reset()

    async def _listen(self, port: int, leads_to: int) -> asyncio.Server:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._connections[task] = [writer]
            try:
                with suppress(asyncio.CancelledError):  # the line was cut
                    await self._carry(self._connections[task], reader, leads_to)
            except* OSError:
                pass  # either end is gone
            finally:
                for end in self._connections.pop(task):
                    _reset(end)

        return await asyncio.start_server(serve, LOOPBACK, port, reuse_address=True)

    async def _carry(
        self, ends: list[asyncio.StreamWriter], reader: asyncio.StreamReader, leads_to: int
    ) -> None:
        client = ends[0]
        await self._asks.open.wait()
        back, broker = await asyncio.open_connection(LOOPBACK, leads_to)
        ends.append(broker)
        async with asyncio.TaskGroup() as both:
            both.create_task(self._pump(reader, broker, self._asks))
            both.create_task(self._pump(back, client, self._answers))
        for end in ends:
            end.close()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: _Way
    ) -> None:
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_UNDER_WAY)

        async def take() -> None:
            while True:
                data = await reader.read(_CHUNK)
                await under_way.put((way.reserve(self._line, len(data)), data))
                if not data:
                    return

        async def bring() -> None:
            while True:
                due, data = await under_way.get()
                await asyncio.sleep(max(due - time.monotonic(), 0))
                await way.open.wait()
                if not data:
                    with suppress(OSError):
                        writer.write_eof()
                    return
                writer.write(data)
                await writer.drain()

        async with asyncio.TaskGroup() as both:
            both.create_task(take())
            both.create_task(bring())

    async def _reset(self) -> None:
        tasks = list(self._connections)
        for task in tasks:
            for end in self._connections[task]:
                _reset(end)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _reset(end: asyncio.StreamWriter) -> None:
    """Close a connection at once; its other end sees a reset."""
    if not end.transport.is_closing():
        end.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE
        )
    end.transport.abort()
