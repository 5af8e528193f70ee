"""What a topic holds, record by record: a digest of each, in order, and one of them all."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from heliograph.drill.compare import Difference, compare
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.offsets import EARLIEST, LATEST, list_offsets
from heliograph.kafka.scan import scan
from heliograph.wire.records import RawRecord
from heliograph.wire.unpack import unpack

_DIGEST_BYTES = 12
_SHOWN_LETTERS = 12


@dataclass(frozen=True, slots=True)
class Ledger:
    """The digests of a topic's records, by partition."""

    digests: Mapping[int, tuple[bytes, ...]]

    @property
    def records(self) -> int:
        return sum(map(len, self.digests.values()))

    @property
    def fingerprint(self) -> str:
        """A short digest of all of it: the same only if every record and its place are the same."""
        whole = hashlib.blake2b()
        for index, digests in sorted(self.digests.items()):
            whole.update(index.to_bytes(4, "big") + len(digests).to_bytes(8, "big"))
            whole.update(b"".join(digests))
        return whole.hexdigest()[:_SHOWN_LETTERS]


def read_ledger(cluster: Cluster, topic: str) -> Ledger:
    """Read all that a consumer sees of a topic now."""
    found = patiently(lambda: cluster.describe([topic])).get(topic)
    if found is None:
        return Ledger({})
    starts = patiently(lambda: list_offsets(cluster, found.partitions, EARLIEST))
    ends = patiently(lambda: list_offsets(cluster, found.partitions, LATEST, committed_only=True))
    ranges = {p: (starts[p], ends[p]) for p in found.partitions}
    digests: dict[int, list[bytes]] = {p.index: [] for p in found.partitions}
    for partition, batch in scan(cluster, ranges, committed_only=True, on_gap=lambda *_: None):
        digests[partition.index] += map(digest, unpack(batch))
    return Ledger({index: tuple(its) for index, its in digests.items()})


def digest(record: RawRecord) -> bytes:
    """Return a digest of key, value, headers and timestamp."""
    stamp = record.timestamp.to_bytes(8, "big", signed=True)
    return hashlib.blake2b(stamp + record.body, digest_size=_DIGEST_BYTES).digest()


def compare_ledgers(originals: Ledger, copies: Ledger) -> Difference:
    """Return what of one topic is not in the other, partition by partition."""
    total = Difference()
    for index in sorted(originals.digests.keys() | copies.digests.keys()):
        total = total.plus(compare(originals.digests.get(index, ()), copies.digests.get(index, ())))
    return total
