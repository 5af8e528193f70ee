"""The ports of an in-process cluster, served by one thread, which alone touches the cluster's state."""

import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from lab.inprocess.line import Answering, Exchange, Line
from lab.inprocess.messages import Asked, UnknownRequest, read_request
from lab.inprocess.node import Node
from lab.inprocess.script import Fate, Script

T = TypeVar("T")

_PATIENCE = 10.0


class Server:
    """Accepts connections to nodes, and has every request answered in its turn."""

    def __init__(
        self, nodes: Iterable[Node], script: Script, begin: Callable[[Asked], Answering]
    ) -> None:
        """Take what begins to answer a request; all calls come from the thread of this server."""
        self._begin = begin
        self._nodes = list(nodes)
        self._script = script
        self._selector = selectors.DefaultSelector()
        self._lines: set[Line] = set()
        self._orders: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._ear, self._mouth = socket.socketpair()
        self._ear.setblocking(False)
        self._selector.register(self._ear, selectors.EVENT_READ, None)
        self._is_over = False
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="in-process broker", daemon=True)
        for node in self._nodes:
            self._open(node)
        self._thread.start()

    def do(self, work: Callable[[], T]) -> T:
        """Return the result of work done in the server's thread, where an event of a script is already."""
        if threading.current_thread() is self._thread:
            return work()
        done: Future[T] = Future()

        def order() -> None:
            try:
                done.set_result(work())
            except BaseException as exc:  # noqa: BLE001 - raised in the thread that gave the order
                done.set_exception(exc)

        self._orders.put(order)
        self._mouth.send(b"!")
        return done.result(_PATIENCE)

    def open(self, node: Node) -> None:
        self.do(lambda: self._open(node))

    def close(self, node: Node) -> None:
        """Refuse connections to a node, and reset those that it has."""

        def refuse() -> None:
            self._selector.unregister(node.socket)
            node.close()
            self._cut(node)

        self.do(refuse)

    def cut(self, node: Node) -> None:
        """Reset all connections to a node."""
        self.do(lambda: self._cut(node))

    def stop(self) -> None:
        """End the thread, and give the ports back. Raises what went wrong in the thread, if anything did."""

        def end() -> None:
            self._is_over = True
            self._mouth.send(b"!")  # or the thread would wait once more

        with suppress(TimeoutError):
            self.do(end)
        self._thread.join(_PATIENCE)
        self._selector.close()
        self._ear.close()
        self._mouth.close()
        if self.failure is not None:
            raise self.failure

    def _open(self, node: Node) -> None:
        node.open()
        self._selector.register(node.socket, selectors.EVENT_READ, node)

    def _cut(self, node: Node) -> None:
        for line in [line for line in self._lines if line.node is node]:
            self._drop(line)

    def _drop(self, line: Line) -> None:
        if line in self._lines:
            self._lines.discard(line)
            self._selector.unregister(line.socket)
            line.close()

    def _run(self) -> None:
        try:
            while not self._is_over:
                left = self._turn() - time.monotonic()
                for key, _ in self._selector.select(min(max(left, 0.0), _PATIENCE)):
                    self._hear(key.data)
        except BaseException as exc:  # noqa: BLE001 - the edge of a thread: `stop` raises it
            self.failure = exc
        for line in list(self._lines):
            self._drop(line)
        for node in self._nodes:
            node.socket.close()

    def _hear(self, who: Any) -> None:
        if isinstance(who, Node):
            with suppress(OSError):
                opened, _ = who.socket.accept()
                opened.setblocking(False)
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                line = Line(who, opened)
                self._lines.add(line)
                self._selector.register(opened, selectors.EVENT_READ, line)
        elif isinstance(who, Line):
            if who.is_open and not (who.receive() and who.send()):
                self._drop(who)
        else:
            with suppress(BlockingIOError):
                self._ear.recv(4096)

    def _turn(self) -> float:
        """Do all that can be done now; return when more is due without an event."""
        with suppress(Empty):
            while True:
                self._orders.get_nowait()()
        # What one connection stores is news for those that wait on others.
        while any(self._serve(line) for line in list(self._lines)):
            pass
        due = float("inf")
        for line in self._lines:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if line.is_sending else 0)
            if self._selector.get_key(line.socket).events != events:
                self._selector.modify(line.socket, events, line)
            if line.exchange is not None and not line.node.is_silent:
                due = min(due, line.exchange.next_at())
        return due

    def _serve(self, line: Line) -> bool:
        """Proceed with a connection's request, or begin its next one; return whether there was anything to do."""
        if line.node.is_silent or not line.is_open:
            return False
        if line.exchange is None:
            if not line.frames:
                return False
            line.exchange = self._begin_next(line)
            if line.exchange is None:
                self._drop(line)
                return True
        answer = line.exchange.proceed(line.node.delay)
        if answer is None or not line.is_open:
            return False
        line.exchange = None
        if not answer or not line.send(answer):
            self._drop(line)
        return True

    def _begin_next(self, line: Line) -> Exchange | None:
        """Return the next exchange, None if the connection ends instead."""
        try:
            asked = read_request(line.node.number, line.frames.popleft())
        except UnknownRequest:
            return None
        events = self._script.meet(asked)
        for event in events:
            event.before()
        if any(event.fate is Fate.UNHEARD for event in events):
            for event in events:
                event.happened.set()
            return None
        if not line.is_open or line.node.is_silent:
            # What ran before it has closed or silenced this broker.
            line.frames.clear()
            return None if not line.is_open else Exchange(asked, Silence(), [])
        return Exchange(asked, self._begin(asked), events)


class Silence:
    """An answer that does not come."""

    wait = float("inf")

    def attempt(self, *, is_over: bool) -> None:
        del is_over
