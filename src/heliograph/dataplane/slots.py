"""One remote partition as its writer sees it: what is stored, what is on the way, what is skipped.

A tail is skipped by the batch where the source batch and its copy are the same bytes, and by the
record otherwise (merged, encoded again, or written by a MirrorMaker 2): then the bodies of the rest
of the tail are read, some thousand at a time, and compared one by one.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from heliograph.dataplane.assignment import Share
from heliograph.dataplane.latency import Taken, taken
from heliograph.errors import MirrorError
from heliograph.kafka.tail import Tail, TailBatch, body_digest
from heliograph.model import ProducerIdentity
from heliograph.wire.record_batch import next_sequence
from heliograph.wire.records import RawRecord


class ForeignRecords(MirrorError):
    """The remote tail is not what this flow wrote."""

    def __init__(self, remote: str, upstream: int, what: str) -> None:
        super().__init__(remote, upstream, what)
        self.remote = remote
        self.upstream = upstream
        self.what = what

    def __str__(self) -> str:
        return (
            f"{self.remote}: the records after the last saved position are not those of the source "
            f"from upstream offset {self.upstream} ({self.what}), so somebody else writes to this topic. "
            "Records from that offset on are copied again; give the remote topic one writer."
        )


@dataclass(slots=True)
class Slot:
    """The state of one lane. `upstream` and `downstream` are stored; `read_to` is only read.

    A slot that is `stopped` takes nothing more; `halt` says why, until what is on the way is stored.
    `runs` tells the driver which records went where: (upstream, downstream, count). From `unread` to
    the tail's end nobody has read bodies yet.
    """

    share: Share
    identity: ProducerIdentity
    sequence: int
    upstream: int
    downstream: int
    read_to: int
    tail_end: int
    pending: int = 0
    tail: deque[tuple[int, TailBatch]] = field(default_factory=deque)
    bodies: deque[tuple[int, int]] = field(default_factory=deque)
    unread: int | None = None
    runs: list[tuple[int, int, int]] = field(default_factory=list)
    stopped: bool = False
    halt: tuple[str, str] | None = None
    missing: int = 0
    records: int = 0
    bytes: int = 0
    copied_ms: int = -1
    latency: Taken | None = None

    @property
    def max_message_bytes(self) -> int:
        return self.share.max_message_bytes

    @property
    def behind(self) -> bool:
        """Whether the target holds records that this writer has not come to yet."""
        return bool(self.tail or self.bodies or self.unread is not None)

    def take_sequence(self, count: int) -> int:
        sequence = self.sequence
        self.sequence = next_sequence(sequence, count)
        return sequence

    def advance(self) -> None:
        """With nothing on the way, everything read is stored, dropped and skipped batches included.

        Not before the whole tail was met: a position in the middle of it would pair an upstream
        offset with a downstream one that lies further on.
        """
        if not self.pending and not self.behind:
            self.upstream = max(self.upstream, self.read_to)
            self.downstream = max(self.downstream, self.tail_end)

    def took(self, ms: float, records: int, timestamp_ms: int) -> None:
        """Note how long the newest of so many records took until the target had them."""
        self.copied_ms = max(self.copied_ms, timestamp_ms)
        more = taken(ms, records)
        self.latency = more if self.latency is None else self.latency + more

    def ran(self, upstream: int, downstream: int, count: int) -> None:
        """Note that the target holds `count` records from `upstream` on, from `downstream` on."""
        if self.runs:
            up, down, length = self.runs[-1]
            if up + length == upstream and down + length == downstream:
                self.runs[-1] = up, down, length + count
                return
        self.runs.append((upstream, downstream, count))

    def skip_twin(self, twin: TailBatch, upstream: int) -> bool:
        """Skip a source batch whose exact copy is next in the tail; return whether it was."""
        if not self.tail or self.tail[0][1] != twin:
            return False
        downstream, _ = self.tail.popleft()
        self.ran(upstream, downstream, twin.records)
        return True

    def leave_batches(self) -> None:
        """Compare the rest of the tail by the record."""
        if self.tail:
            self.unread = self.tail[0][0]
            self.tail.clear()

    def take_window(self, most: int) -> tuple[int, int]:
        """Return from where to where bodies are to be read next: there are some unread."""
        assert self.unread is not None
        start, end = self.unread, min(self.unread + most, self.tail_end)
        self.unread = end if end < self.tail_end else None
        return start, end

    def skip_bodies(self, records: Sequence[RawRecord]) -> int:
        """Return how many of `records`, from the first, are in the tail; raise if it holds others."""
        skipped = 0
        for record in records:
            if not self.bodies:
                break
            downstream, digest = self.bodies.popleft()
            if digest != body_digest(record):
                raise self.foreign(f"they differ at upstream offset {record.offset}")
            self.ran(record.offset, downstream, 1)
            skipped += 1
        return skipped

    def foreign(self, what: str) -> ForeignRecords:
        return ForeignRecords(str(self.share.remote), self.share.position.upstream, what)


def open_slot(share: Share, tail: Tail | None) -> Slot:
    """Return the state to start from; a tail says what a predecessor stored beyond the position."""
    slot = Slot(
        share=share,
        identity=share.identity,
        sequence=share.sequence,
        upstream=share.position.upstream,
        downstream=share.position.downstream,
        read_to=share.position.upstream,
        tail_end=share.position.downstream if tail is None else tail.end,
    )
    if tail is not None:
        slot.missing = tail.missing
        if not tail.missing:
            slot.tail.extend(tail.batches)
    return slot
