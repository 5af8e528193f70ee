"""One partition as its writer sees it: what is stored, what is pending, why it stops."""

from dataclasses import dataclass, field

from heliograph.copying.sections import ChunkSection
from heliograph.model import UNKNOWN, Position, ProducerIdentity
from heliograph.policy.latency import taken
from heliograph.wire.lease_messages import Share, SlotWritten, Stopped, Taken
from heliograph.wire.record_batch import next_sequence


@dataclass(slots=True)
class Slot:
    """`upstream` and `downstream` are stored; `read_to` is only packed.

    `put_off` are sections that wait for room in the lane; together they count as one that is pending.
    A slot with a `halt` takes nothing more; what is pending is stored first. `runs` reports to the driver
    which records went where: (upstream, downstream, count).
    """

    share: Share
    identity: ProducerIdentity
    sequence: int
    upstream: int
    downstream: int
    read_to: int
    max_message_bytes: int
    pending: int = 0
    put_off: list[tuple[memoryview, ChunkSection]] = field(default_factory=list)
    runs: list[tuple[int, int, int]] = field(default_factory=list)
    halt: Stopped | None = None
    alarmed: bool = False
    records: int = 0
    bytes: int = 0
    copied_ms: int = -1
    latency: Taken | None = None

    def take_sequence(self, count: int) -> int:
        sequence = self.sequence
        self.sequence = next_sequence(sequence, count)
        return sequence

    def advance(self) -> None:
        """With nothing pending, everything read counts as stored, dropped and skipped batches included."""
        if not self.pending:
            self.upstream = max(self.upstream, self.read_to)

    def took(self, ms: float, records: int, timestamp_ms: int) -> None:
        """Note how long the newest of `records` records took to reach the target."""
        self.copied_ms = max(self.copied_ms, timestamp_ms)
        more = taken(ms, records)
        self.latency = more if self.latency is None else self.latency + more

    def ran(self, upstream: int, downstream: int, count: int) -> None:
        """Note that the target holds `count` records from `upstream` on, from `downstream` on.

        A count of 0 says that nothing lies between the records before and this place, UNKNOWN that this is unknown.
        """
        if self.runs and count != UNKNOWN:
            up, down, length = self.runs[-1]
            if up + length == upstream and down + length == downstream:
                self.runs[-1] = up, down, length + count
                return
        self.runs.append((upstream, downstream, count))

    def report(self) -> SlotWritten:
        """Return what happened since the last report."""
        written = SlotWritten(
            self.share.slot,
            self.upstream,
            self.downstream,
            self.sequence,
            self.records,
            self.bytes,
            tuple(self.runs),
            self.copied_ms,
            self.latency,
        )
        self.records = self.bytes = 0
        self.runs, self.latency = [], None
        return written


def open_slot(share: Share, position: Position, sequence: int) -> Slot:
    """Return the state to start from, at a position with nothing stored after it."""
    return Slot(
        share=share,
        identity=share.identity,
        sequence=sequence,
        upstream=position.upstream,
        downstream=position.downstream,
        read_to=position.upstream,
        max_message_bytes=share.max_message_bytes,
    )


def join_reports(before: SlotWritten | None, after: SlotWritten) -> SlotWritten:
    """Merge two reports of a slot into one."""
    if before is None:
        return after
    took = after.took if before.took is None else before.took
    if before.took is not None and after.took is not None:
        took = before.took + after.took
    return after._replace(
        records=before.records + after.records,
        size=before.size + after.size,
        runs=before.runs + after.runs,
        took=took,
    )
