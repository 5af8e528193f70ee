"""What a request asks of clusters on threads of its own: no other request waits for one of them.

Who asks the same while it is being found out gets the same answer, and who asks too long is told so. The
thread goes on then: its answer is there for who asks again.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Generic, TypeVar

from heliograph.connect.herder import RestError

T = TypeVar("T")

_NOT_KEPT: Final = timedelta(0)
FOR_GOOD: Final = timedelta(days=36_500)


@dataclass(slots=True)
class _Flight(Generic[T]):
    """An answer that is on its way, or was found out and counts until `until`; `find` keeps alive what it is of."""

    find: Callable[[], T]
    answer: Future[T]
    until: float | None = None


class Inquiries(Generic[T]):
    """Answers by what was asked; asked from the event loop alone."""

    def __init__(self) -> None:
        self._flights: dict[Hashable, _Flight[T]] = {}

    async def ask(
        self,
        key: Hashable,
        find: Callable[[], T],
        within: timedelta,
        *,
        most: int,
        keep: Callable[[T], timedelta] = lambda _: _NOT_KEPT,
    ) -> T:
        """Return what `find` tells, or told not long ago; at most so many are found out at a time."""
        self._forget()
        flight = self._flights.get(key)
        if flight is None:
            if sum(its.until is None for its in self._flights.values()) >= most:
                raise RestError(429, "too many are looking at clusters. Try again in some seconds.")
            flight = _Flight(find, Future())
            self._flights[key] = flight
            try:
                threading.Thread(
                    target=_fly, args=(flight, keep), name=f"asks {key}", daemon=True
                ).start()
            except BaseException:
                del self._flights[key]
                raise
        arrival = asyncio.wrap_future(flight.answer)
        arrival.add_done_callback(_heard)
        done, _ = await asyncio.wait({arrival}, timeout=within.total_seconds())
        if not done:
            raise RestError(
                504,
                f"no answer came within {within.total_seconds():g} s. Look why a cluster is slow.",
            )
        return arrival.result()

    def _forget(self) -> None:
        now = time.monotonic()
        for key, flight in list(self._flights.items()):
            if flight.until is not None and flight.until <= now:
                del self._flights[key]


def _fly(flight: _Flight[T], keep: Callable[[T], timedelta]) -> None:
    try:
        found = flight.find()
    except BaseException as exc:  # noqa: BLE001 - the edge of a thread: whoever waits must hear of it
        flight.until = time.monotonic()
        flight.answer.set_exception(exc)
    else:
        flight.until = time.monotonic() + keep(found).total_seconds()
        flight.answer.set_result(found)


def _heard(arrival: "asyncio.Future[Any]") -> None:
    """Look at an error that came when nobody waited any more, or asyncio would complain of it."""
    if not arrival.cancelled():
        arrival.exception()
