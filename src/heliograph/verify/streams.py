"""The two streams of an audit, what is known of them beforehand, and the findings of an audit."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from heliograph.verify.items import Difference, Item, item_of
from heliograph.wire.records import RawRecord


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some records in a row, unpacked when asked for; equal seals mean equal records."""

    count: int
    first: int
    last: int
    seal: object
    unpack: Callable[[], list[RawRecord]]


Open = Callable[[], Iterator[Chunk]]


@dataclass(frozen=True, slots=True)
class Terms:
    """What is known beforehand; `upstream` and `downstream` are the saved position, as far as there is one."""

    source_start: int = 0
    source_end: int = 0
    target_start: int = 0
    upstream: int | None = None
    downstream: int | None = None
    compacted: bool = False
    timestamps: bool = True
    begins_late: bool = False

    @property
    def may_expire(self) -> bool:
        return self.source_start > 0

    @property
    def may_trim(self) -> bool:
        return self.target_start > 0 or self.begins_late


@dataclass(frozen=True, slots=True)
class Findings:
    """The result of an audit of one partition. `equal` is None if that is unknown, `reason` says why.

    Everything before `upstream` is proved equal to everything before `downstream`.
    """

    equal: bool | None
    compared: int
    upstream: int
    downstream: int
    lag: int = 0
    expired: int = 0
    trimmed: int = 0
    vanished: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    differences: tuple[Difference, ...] = ()
    reason: str = ""


class Cursor:
    """A place in a stream of chunks."""

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        self._chunks = iter(chunks)
        self._chunk: Chunk | None = None
        self.records: deque[RawRecord] = deque()

    def fresh(self) -> Chunk | None:
        """Return the chunk that begins here, unless it is unpacked already."""
        if self.records:
            return None
        while self._chunk is None or not self._chunk.count:
            self._chunk = next(self._chunks, None)
            if self._chunk is None:
                return None
        return self._chunk

    def pass_chunk(self) -> None:
        self._chunk = None

    def fill(self, count: int = 1) -> bool:
        """Unpack until `count` records are ahead; return whether they are."""
        while len(self.records) < count:
            held, self.records = self.records, deque()
            chunk = self.fresh()
            self.records = held
            if chunk is None:
                return False
            self._chunk = None
            self.records.extend(chunk.unpack())
        return True

    def ahead(self, count: int) -> list[Item]:
        self.fill(count)
        return [item_of(record) for record in islice(self.records, count)]

    def skip(self, count: int) -> None:
        while count:
            chunk = self.fresh()
            if chunk is not None and chunk.count <= count:
                self.pass_chunk()
                count -= chunk.count
            elif self.fill():
                self.records.popleft()
                count -= 1
            else:
                return

    def rest(self) -> Iterator[RawRecord]:
        while self.fill():
            yield self.records.popleft()
