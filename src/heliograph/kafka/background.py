"""Background threads for work that takes time: a loop that must not wait starts it here and is notified when it ends.

Connecting takes seconds when a broker is away, so each errand has a thread: one that hangs delays no other. There are
few errands: one connection per broker, and a leader lookup now and then.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from typing import Generic, TypeVar

from heliograph.errors import KafkaFault, MirrorError
from heliograph.kafka.cluster import Cluster, Described, open_channel
from heliograph.model import Endpoint
from heliograph.net.transport import Channel

log = logging.getLogger(__name__)

T = TypeVar("T")

_PAUSE = 0.5  # seconds between two tries to reach a broker
_TRIES = (
    timedelta(seconds=3),
    timedelta(seconds=15),
)  # for a leader lookup; the second try asks another broker
_OTHER = 5.0  # seconds after which another broker is asked for leaders: one that is cut off knows old ones
_FRESH = 0.3  # seconds for which the last answer is reused: several callers ask while a connection is opened


class Errand(Generic[T]):
    """A piece of work that runs in a thread; `result` is valid once `is_over` is set."""

    def __init__(self) -> None:
        self.is_over = False
        self._result: T | None = None
        self._error: Exception | None = None

    def run(self, work: Callable[[], T]) -> None:
        """Do the work. Called once, in its thread; `result` raises what the work raises."""
        try:
            self._result = work()
        except Exception as exc:  # noqa: BLE001 - the edge of a thread: `result` raises it
            self._error = exc
        self.is_over = True

    def fail(self, error: Exception) -> None:
        """End without doing the work; `result` raises `error`."""
        self._error = error
        self.is_over = True

    def result(self) -> T:
        """Return the result of the work, or raise its error."""
        assert self.is_over, "the bell rings when it ends"
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]  # set, unless there is an error


class Bell:
    """A descriptor that becomes readable when an errand has ended; the loop polls it with all others."""

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.Lock()
        self._is_open = True

    def fileno(self) -> int:
        return self._descriptor

    def start(self, work: Callable[[], T], name: str) -> Errand[T]:
        """Start an errand; the bell rings when it is over."""
        errand: Errand[T] = Errand()

        def run() -> None:
            errand.run(work)
            self.ring()

        try:
            threading.Thread(target=run, name=name, daemon=True).start()
        except RuntimeError as exc:
            errand.fail(KafkaFault(f"start a thread for {name}", str(exc), retriable=True))
            self.ring()
        return errand

    def ring(self) -> None:
        with self._lock:
            if self._is_open:
                os.eventfd_write(self._descriptor, 1)

    def silence(self) -> None:
        """Clear the signal. Call this before looking at which errands have ended."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._descriptor)

    def close(self) -> None:
        with self._lock:
            self._is_open = False
            os.close(self._descriptor)


class Background:
    """The brokers of a cluster for a loop that does not wait: returns None until a connection or leader is known."""

    def __init__(self, endpoint: Endpoint, bell: Bell) -> None:
        self.endpoint = endpoint
        self._bell = bell
        self._channels: dict[tuple[int, int], Channel] = {}
        self._opening: dict[tuple[int, int], Errand[Channel]] = {}
        self._not_before: dict[tuple[int, int], float] = {}
        self._metadata = Cluster(endpoint)  # used only by the describing thread, while there is one
        self._addresses: dict[int, tuple[str, int]] = {}
        self._describing: tuple[frozenset[str], Errand[Described]] | None = None
        self._known: tuple[frozenset[str], Described, float] | None = None
        self._other_at = 0.0
        self._closed = False

    def channel(self, node: int, number: int = 0) -> Channel | None:
        """Return the open channel to a broker, None while it is being opened; raise KafkaFault if that failed."""
        key = node, number
        channel = self._channels.get(key)
        if channel is not None:
            return channel
        errand = self._opening.get(key)
        if errand is None:
            if time.monotonic() >= self._not_before.get(key, 0.0):
                self._open(key)
            return None
        if not errand.is_over:
            return None
        del self._opening[key]
        self._not_before[key] = time.monotonic() + _PAUSE
        channel = self._channels[key] = errand.result()
        return channel

    def describe_each(self, names: Iterable[str]) -> Described | None:
        """Return the named topics, None while the request is pending; raise if the cluster does not answer."""
        wanted = frozenset(names)
        if self._describing is not None:
            asked, errand = self._describing
            if not errand.is_over:
                return None
            self._describing = None
            self._known = asked, errand.result(), time.monotonic() + _FRESH
        if self._known is not None:
            asked, found, until = self._known
            if wanted <= asked and time.monotonic() < until:
                return found
        self._describing = wanted, self._bell.start(lambda: self._ask(wanted), "leaders")
        return None

    def drop(self, node: int, number: int = 0) -> None:
        """Forget the channel to a broker, after an error on it."""
        channel = self._channels.pop((node, number), None)
        if channel is not None:
            channel.close()
            self._not_before[node, number] = 0.0

    def close(self) -> None:
        """Close all channels; a channel that is still being opened is closed once it is open."""
        self._closed = True
        for key in list(self._channels):
            self.drop(*key)
        for errand in self._opening.values():
            _close_when_open(errand)
        if self._describing is None or self._describing[1].is_over:
            self._metadata.close()

    def _open(self, key: tuple[int, int]) -> None:
        node, _ = key

        def connect() -> Channel:
            address = self._addresses.get(node)
            if address is None:
                raise KafkaFault(f"find broker {node} of {self.endpoint.cluster}", "nothing", True)
            channel = open_channel(self.endpoint, *address)
            if self._closed:
                channel.close()
            return channel

        self._opening[key] = self._bell.start(connect, f"broker {node}")

    def _ask(self, names: frozenset[str]) -> Described:
        try:
            found = self._describe(names)
        finally:
            if self._closed:
                self._metadata.close()
        self._addresses = self._metadata.addresses()
        return found

    def _describe(self, names: frozenset[str]) -> Described:
        """Describe topics, now and then at another broker; a broker that has gone silent delays this only briefly."""
        if time.monotonic() > self._other_at:
            self._metadata.ask_another()
            self._other_at = time.monotonic() + _OTHER
        for within in _TRIES[:-1]:
            self._metadata.hurry(within)
            try:
                return self._metadata.describe_each(names)
            except MirrorError as exc:
                log.debug("leaders of %s: %s", self.endpoint.cluster, exc)
                self._metadata.close()
        self._metadata.hurry(_TRIES[-1])
        try:
            return self._metadata.describe_each(names)
        except MirrorError:
            self._metadata.close()
            raise


def _close_when_open(errand: Errand[Channel]) -> None:
    """Close a channel that nothing waits for any more."""
    if errand.is_over:
        with suppress(MirrorError, OSError):
            errand.result().close()
