"""A share of a slice, the slot that a task makes of it, and batches as a source broker would send them."""

from collections.abc import Sequence

from heliograph.copying.slot import Slot, open_slot
from heliograph.model import Position, ProducerIdentity, TopicPartition
from heliograph.wire.compression import compress
from heliograph.wire.lease_messages import Share
from heliograph.wire.record_batch import HEADER_SIZE, build_header
from heliograph.wire.records import RawRecord, join_records


class Batches:
    """Writes the batches of a source partition, offsets going up."""

    def __init__(self, first: int = 500) -> None:
        self.offset = first

    def write(
        self,
        bodies: Sequence[bytes],
        codec: int = 0,
        timestamp: int = 1_700_000_000_000,
        *,
        attributes: int = 0,
    ) -> tuple[bytes, list[RawRecord]]:
        """Return a batch and the records that are in it."""
        records = [
            RawRecord(self.offset + i, timestamp + i * 7 % 5, 0, body)
            for i, body in enumerate(bodies)
        ]
        plain, base, latest = join_records(records)
        payload = compress(codec, plain) if codec else plain
        header = build_header(
            payload,
            attributes=codec | attributes,
            count=len(records),
            base_timestamp=base,
            max_timestamp=latest,
            identity=ProducerIdentity(77, 3),
            sequence=self.offset,
        )
        placed = self.offset.to_bytes(8, "big") + header[8:HEADER_SIZE]
        self.offset += len(records)
        return placed + payload, records


def make_share(
    max_message_bytes: int = 1 << 20,
    sequence: int = 0,
    *,
    slot: int = 0,
    remote: TopicPartition | None = None,
    position: Position | None = None,
    spread: int = 0,
    leader_epoch: int = -1,
    ours: bool = True,
) -> Share:
    return Share(
        slot=slot,
        source=TopicPartition("t", slot),
        topic_id="00000000-0000-0000-0000-000000000001",
        remote=remote or TopicPartition("A.t", slot),
        remote_id="id of A.t",
        position=position or Position(500, 40),
        identity=ProducerIdentity(9, 1),
        sequence=sequence,
        resume=False,
        max_message_bytes=max_message_bytes,
        spread=spread,
        leader_epoch=leader_epoch,
        ours=ours,
    )


def make_slot(max_message_bytes: int = 1 << 20, sequence: int = 0) -> Slot:
    """Return a slot at the position of its share, with nothing stored behind it."""
    share = make_share(max_message_bytes, sequence)
    return open_slot(share, share.position, sequence)
