"""A reader whose broker's answers a test writes itself."""

from collections.abc import Callable, Iterable
from typing import Any, cast

from heliograph.copying.reader import Reader
from heliograph.kafka.cluster import Described
from heliograph.kafka.fetch import Response, Session
from heliograph.model import Endpoint
from heliograph.wire.fetch_response import Section
from heliograph.wire.lease_messages import Limits, Stopped
from tests.unit.copying.lanes import make_share
from tests.unit.copying.targets import LIMITS


class Leaderless:
    """Brokers of which none leads anything."""

    endpoint = Endpoint("A", (("127.0.0.1", 1),))

    def channel(self, node: int, number: int = 0) -> None:
        raise AssertionError(f"nobody leads, so nobody connects to {node} ({number})")

    def describe_each(self, names: Iterable[str]) -> Described:
        del names
        return Described({}, {})

    def drop(self, node: int, number: int = 0) -> None:
        pass


def reader_of(
    partitions: int,
    on_stop: Callable[[Stopped], None] = lambda _: None,
    limits: Limits = LIMITS,
) -> Reader:
    """Return a reader that asks nobody; each of its partitions has the same leader."""
    reader = Reader(Leaderless(), limits, on_stop)
    reader._follow_at = float("inf")  # leaders are followed elsewhere
    session = Session(1, cast("Any", None), 13)
    reader._fetcher._sessions[1, 0] = session
    for slot in range(partitions):
        reader.take(make_share(slot=slot), 500, -1)
        reader._fetcher._settle(reader._fetcher._subjects[slot], session)
    return reader


def section(slot: int, start: int = 0, end: int = 0, **told: Any) -> Section:
    """Return what a response says of a partition whose log ends at 900."""
    plain = Section(slot, 0, 900, 900, 0, (), start, end)
    return plain._replace(**told)


def response_of(batches: Iterable[bytes], copies: int = 1, **told: Any) -> Response:
    """Return a response in which so many partitions have the same batches."""
    records = b"".join(batches)
    size = len(records)
    sections = [section(slot, slot * size, (slot + 1) * size, **told) for slot in range(copies)]
    return Response(memoryview(records * copies), sections)


def answer_of(*sections: Section) -> Response:
    """Return a response without records."""
    return Response(memoryview(b""), list(sections))


def answer_with(reader: Reader, response: Response) -> None:
    """Have the leader answer the reader, which writes nothing of it."""
    (session,) = reader._fetcher._sessions.values()
    fetcher = cast("Any", reader._fetcher)
    fetcher.collect = lambda *_: [session]
    fetcher.take = lambda _: response
    reader.collect(set(), lambda *_: None, room=True)


def count_asks(reader: Reader) -> list[None]:
    """Return a list that gets a member each time that the reader asks for more."""
    asks: list[None] = []
    cast("Any", reader._fetcher).ask = lambda: asks.append(None)
    return asks
