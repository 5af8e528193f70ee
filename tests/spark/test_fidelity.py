"""What a consumer reads from a remote topic is, record by record, what it reads from the source."""

import os
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as RdPartition

from lab.clusters import LiveCluster, Outgoing, unique_name
from lab.compacted import create_compacted
from lab.mirrors import (
    Mirror,
    Seen,
    assert_copied,
    first_difference,
    flow_properties,
    seen,
    unique_alias,
)

pytestmark = pytest.mark.spark

PREFIX = "fidelity."
NOW = 1_790_000_000_000
YEAR_MS = 365 * 24 * 3600 * 1000
FOREVER = {"retention.ms": "-1"}
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@dataclass
class Rig:
    """One mirror for the module; every topic that was compared once is compared again after it stopped."""

    source: LiveCluster
    target: LiveCluster
    alias: str
    mirror: Mirror
    compared: dict[str, tuple[list[Seen], bool]] = field(default_factory=dict)

    def create(self, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        return create(self.source, partitions, config)

    def check(self, topic: str, *, timestamp_types: bool = True, within: float = 30) -> None:
        copied = assert_copied(
            self.source,
            topic,
            self.target,
            self.remote(topic),
            self.mirror,
            timestamp_types=timestamp_types,
            within=within,
        )
        self.compared[topic] = copied, timestamp_types

    def check_again(self) -> None:
        for topic, (copied, timestamp_types) in self.compared.items():
            now = seen(self.target.consume(self.remote(topic)), timestamp_types)
            assert first_difference(copied, now) is None, f"{topic} changed after it was copied"

    def remote(self, topic: str) -> str:
        return f"{self.alias}.{topic}"


def create(
    source: LiveCluster, partitions: int, config: Mapping[str, str] | None, name: str | None = None
) -> str:
    return source.create_topic(partitions, config, name=PREFIX + (name or unique_name()))


@pytest.fixture(scope="module")
def rig(
    source: LiveCluster,
    target: LiveCluster,
    compacted: str,
    trimmed: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Rig]:
    del compacted  # it must be what it is before the mirror sees it
    alias = unique_alias()
    properties = flow_properties(
        (alias, source.bootstrap), ("B", target.bootstrap), f"{PREFIX}.*", tasks_max="2"
    )
    with Mirror(tmp_path_factory.mktemp("mirror"), properties) as mirror:
        made = Rig(source, target, alias, mirror)
        made.check(trimmed, within=90)  # Spark takes its time to start
        yield made
    made.check_again()


@pytest.fixture(scope="module")
def compacted(source: LiveCluster) -> str:
    return create_compacted(source, PREFIX + "compacted")


@pytest.fixture(scope="module")
def trimmed(source: LiveCluster) -> str:
    """A topic whose first offsets were deleted."""
    topic = create(source, 2, None, "trimmed")
    source.produce(topic, [Outgoing(b"%d" % i, partition=i % 2) for i in range(200)])
    cut = [RdPartition(topic, 0, 30), RdPartition(topic, 1, 100)]
    for deleted in source.admin.delete_records(cut).values():
        deleted.result(timeout=30)
    return topic


def test_null_and_empty_keys_and_values(rig: Rig) -> None:
    topic = rig.create()
    contents = (None, b"", b"x")
    rig.source.produce(topic, [Outgoing(v, key=k) for k in contents for v in contents])

    rig.check(topic)


def test_tombstones(rig: Rig) -> None:
    topic = rig.create(config={"cleanup.policy": "compact"})
    rig.source.produce(
        topic, [Outgoing(None if i % 3 == 0 else b"v%d" % i, key=b"k%d" % i) for i in range(60)]
    )

    rig.check(topic)


def test_headers_in_order_with_duplicates_nulls_and_bytes_that_are_no_text(rig: Rig) -> None:
    topic = rig.create()
    headers: list[tuple[tuple[str, bytes | None], ...]] = [
        (("a", b"1"), ("b", b"2"), ("a", b"3"), ("a", b"1")),
        (("null", None), ("empty", b""), ("null", None)),
        (("bytes", b"\xff\xfe\x00\x80"), ("naïve ☃", b"\xc3\x28")),
        tuple((f"h{i}", os.urandom(i)) for i in range(100)),
        (),
    ]
    rig.source.produce(topic, [Outgoing(b"v", headers=given) for given in headers])

    rig.check(topic)


def test_timestamps_that_are_old_and_out_of_order(rig: Rig) -> None:
    check_timestamps(rig, [1, 20 * YEAR_MS, NOW, 1000, NOW - 1, 20 * YEAR_MS, NOW + 5, 1], FOREVER)


def test_timestamps_of_the_future(rig: Rig) -> None:
    check_timestamps(
        rig,
        [NOW + 20 * YEAR_MS, NOW, NOW + 21 * YEAR_MS],
        {"message.timestamp.after.max.ms": str(100 * YEAR_MS)},
    )


def check_timestamps(rig: Rig, stamps: list[int], config: Mapping[str, str]) -> None:
    topic = rig.create(config=config)
    records = [Outgoing(b"%d" % stamp, timestamp=stamp) for stamp in stamps]
    rig.source.produce(topic, records)
    rig.source.produce(topic, records, batch_num_messages=1)

    rig.check(topic, within=20)


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec(rig: Rig, codec: str) -> None:
    topic = rig.create(2)
    rig.source.produce(
        topic,
        [Outgoing(b"some text %d " % i * 20, b"k%d" % i, partition=i % 2) for i in range(1000)],
        compression_type=codec,
        linger_ms=20,
    )

    rig.check(topic)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_batches_of_one_record(rig: Rig, codec: str) -> None:
    topic = rig.create()
    rig.source.produce(
        topic,
        [Outgoing(b"value %d" % i * 10, key=b"%d" % i) for i in range(500)],
        linger_ms=0,
        batch_num_messages=1,
        compression_type=codec,
    )

    rig.check(topic)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_record_of_900_kb_that_does_not_compress(rig: Rig, codec: str) -> None:
    topic = rig.create()
    rig.source.produce(
        topic,
        [b"before", os.urandom(900_000), b"between", os.urandom(900_000), b"after"],
        compression_type=codec,
        message_max_bytes=1_000_000,
    )

    rig.check(topic)


def test_only_committed_transactions_are_copied(rig: Rig) -> None:
    topic = rig.create(3)
    dice = random.Random(7)
    senders = [
        Producer(rig.source.client(transactional_id=f"{topic}-{name}")) for name in ("one", "two")
    ]
    plain = Producer(rig.source.client(enable_idempotence=True))
    for sender in senders:
        sender.init_transactions()
    open_: set[int] = set()
    for step in range(60):
        chosen = dice.randrange(2)
        sender = senders[chosen]
        if chosen not in open_:
            sender.begin_transaction()
            open_.add(chosen)
        send(sender, topic, (b"%d of %d" % (step, chosen), b"again %d" % step), dice.randrange(3))
        send(plain, topic, [b"plain %d" % step], dice.randrange(3))
        if dice.random() < 0.4:
            (sender.abort_transaction if dice.random() < 0.5 else sender.commit_transaction)()
            open_.remove(chosen)
    for chosen in open_:
        senders[chosen].commit_transaction()
    everything = rig.source.consume(topic, isolation="read_uncommitted")
    assert len(everything) > len(rig.source.consume(topic))

    rig.check(topic)


def send(producer: Producer, topic: str, values: Iterable[bytes], partition: int) -> None:
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(30) == 0


def test_a_compacted_topic_with_holes(rig: Rig, compacted: str) -> None:
    records = rig.source.consume(compacted)
    offsets = [r.offset for r in records if r.partition == 0]
    assert offsets != list(range(offsets[0], offsets[0] + len(offsets)))
    assert any(r.value is None for r in records)

    rig.check(compacted)


def test_log_append_time_is_kept_as_the_record_s_time(rig: Rig) -> None:
    topic = rig.create(config={"message.timestamp.type": "LogAppendTime"})
    for first in range(0, 50, 10):
        rig.source.produce(
            topic, [Outgoing(b"%d" % (first + i), timestamp=NOW - 5 * YEAR_MS) for i in range(10)]
        )
    assert {r.timestamp[0] for r in rig.source.consume(topic)} == {2}

    rig.check(topic, timestamp_types=False)


def test_a_topic_whose_first_records_are_deleted(rig: Rig, trimmed: str) -> None:
    assert len(rig.source.consume(trimmed)) == 70

    rig.check(trimmed)


def test_an_empty_topic(rig: Rig) -> None:
    rig.check(rig.create(3))


def test_twelve_partitions(rig: Rig) -> None:
    topic = rig.create(12)
    rig.source.produce(topic, [Outgoing(b"%d" % i, key=b"%d" % (i % 97)) for i in range(3000)])

    rig.check(topic)


def test_a_large_mix(rig: Rig) -> None:
    dice = random.Random(20_000)
    topic = rig.create(5)
    left = 20_000
    while left:
        count = min(left, dice.choice([1, 10, 300, 2000, 3000]))
        left -= count
        rig.source.produce(
            topic,
            [any_record(dice) for _ in range(count)],
            compression_type=dice.choice(CODECS),
            linger_ms=dice.choice([0, 5, 50]),
            batch_num_messages=dice.choice([1, 10, 10_000]) if count < 1000 else 10_000,
        )

    rig.check(topic, within=60)


def any_record(dice: random.Random) -> Outgoing:
    size = dice.choice([0, 1, 20, 100, 100, 400, 3000])
    return Outgoing(
        dice.choice([None, b"", dice.randbytes(size), b"text " * (size // 5)]),
        key=dice.choice([None, b"", dice.randbytes(8)]),
        partition=dice.randrange(5),
        timestamp=NOW + dice.randrange(-1_000_000, 1_000_000) if dice.random() < 0.5 else None,
        headers=tuple((dice.choice("abc"), dice.randbytes(3)) for _ in range(dice.randrange(3))),
    )
