"""Queries to clusters on separate threads, so that no other request waits for one of them.

A request that asks the same during a query gets the same answer; one that waits too long gets an error.
The thread continues then: its answer is there for the next request.
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
    """An answer that is pending, or known and valid until `until`; `find` keeps alive what it is about."""

    find: Callable[[], T]
    answer: Future[T]
    until: float | None = None


class Inquiries(Generic[T]):
    """Answers by what was asked; for the event loop only."""

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
        """Return what `find` returns, or returned recently; at most `most` queries run at a time."""
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
    except BaseException as exc:  # noqa: BLE001 - the edge of a thread: waiting requests must get the error
        flight.until = time.monotonic()
        flight.answer.set_exception(exc)
    else:
        flight.until = time.monotonic() + keep(found).total_seconds()
        flight.answer.set_result(found)


def _heard(arrival: "asyncio.Future[Any]") -> None:
    """Retrieve an error that no request waits for any more, or asyncio would complain about it."""
    if not arrival.cancelled():
        arrival.exception()
