"""A slot of a remote partition, and batches as a source broker would send them."""

from collections.abc import Sequence

from heliograph.wire.lease_messages import Share
from heliograph.model import Position, ProducerIdentity, TopicPartition
from heliograph.wire.compression import compress
from heliograph.wire.record_batch import HEADER_SIZE, build_header
from heliograph.wire.records import RawRecord, join_records


class Batches:
    """Writes the batches of a source partition, offsets going up."""

    def __init__(self, first: int = 500) -> None:
        self.offset = first

    def write(
        self, bodies: Sequence[bytes], codec: int = 0, timestamp: int = 1_700_000_000_000
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
            attributes=codec,
            count=len(records),
            base_timestamp=base,
            max_timestamp=latest,
            identity=ProducerIdentity(77, 3),
            sequence=self.offset,
        )
        placed = self.offset.to_bytes(8, "big") + header[8:HEADER_SIZE]
        self.offset += len(records)
        return placed + payload, records


def make_share(max_message_bytes: int = 1 << 20, sequence: int = 0) -> Share:
    return Share(
        slot=0,
        source=TopicPartition("t", 0),
        topic_id="id",
        remote=TopicPartition("A.t", 0),
        position=Position(500, 40),
        identity=ProducerIdentity(9, 1),
        sequence=sequence,
        resume=False,
        max_message_bytes=max_message_bytes,
    )
