"""Remote topics that keep their own partition count, and MirrorMaker 1's command line."""

import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as RdPartition
from confluent_kafka.admin import NewPartitions

from lab.clusters import LiveCluster, Outgoing, Record, eventually
from lab.mirrors import Mirror, flow_properties, unique_alias
from tests.java_client import place_with_java

pytestmark = pytest.mark.spark

SOURCES, REMOTES = 12, 5
# Of all lengths modulo four, with bytes above 127, and one that is empty: murmur2's corners.
KEYS = [b"", b"\xff", "clé".encode(), *(b"order-%d" % i for i in range(150)), *map(bytes, range(9))]


class Legacy(Mirror):
    """`heliograph legacy` on two files."""

    command = "legacy"

    def __init__(
        self, folder: Path, source: LiveCluster, target: LiveCluster, *arguments: str, **reads: str
    ) -> None:
        super().__init__(folder, {}, arguments=arguments)
        consumer, producer = folder / "consumer.properties", folder / "producer.properties"
        given = {"bootstrap.servers": source.bootstrap, "metadata.max.age.ms": "1000", **reads}
        consumer.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
        producer.write_text(f"bootstrap.servers={target.bootstrap}\n")
        self._named = ["--consumer.config", str(consumer), "--producer.config", str(producer)]

    def arguments(self) -> Sequence[str]:
        return [*self._named, *super().arguments()[1:]]


def some_records(first: int, count: int) -> list[Outgoing]:
    """Return records with and without keys; the source's partition of a key is not Java's choice."""
    chance = random.Random(first)
    records = []
    for number in range(first, first + count):
        key = chance.choice(KEYS) if number % 5 else None
        partition = number % SOURCES if key is None else sum(key) % SOURCES
        records.append(Outgoing(b"%d" % number, key, partition, headers=(("n", b"%d" % number),)))
    return records


def by_key(records: list[Record]) -> dict[bytes | None, list[bytes | None]]:
    """Return the values of each key, in the order of their partition."""
    found: dict[bytes | None, list[bytes | None]] = defaultdict(list)
    for record in records:
        found[record.key].append(record.value)
    return dict(found)


def without_keys(records: list[Record], count: int) -> dict[int, dict[int, list[bytes | None]]]:
    """Return values without a key by remote partition, those of one source partition together, in order."""
    found: dict[int, dict[int, list[bytes | None]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        if record.key is None and record.value is not None:
            found[record.partition % count][int(record.value) % SOURCES].append(record.value)
    return {index: dict(its) for index, its in found.items()}


def assert_placed(source: list[Record], remote: list[Record], places: dict[bytes, int]) -> None:
    """Nothing lost, nothing repeated, every key where Java puts it, order kept per key and source."""
    assert sorted(r.value or b"" for r in remote) == sorted(r.value or b"" for r in source)
    for record in remote:
        assert record.key is None or record.partition == places[record.key]
    before, after = by_key(source), by_key(remote)
    before.pop(None), after.pop(None)
    assert after == before
    assert without_keys(remote, REMOTES) == without_keys(source, REMOTES)
    content = {r.value: (r.key, r.timestamp, r.headers) for r in source}
    assert {r.value: (r.key, r.timestamp, r.headers) for r in remote} == content


def await_records(target: LiveCluster, topic: str, count: int, mirror: Mirror) -> list[Record]:
    eventually(
        lambda: target.partition_count(topic) and len(target.consume(topic)) >= count,
        90,
        mirror.tail,
    )
    return target.consume(topic)


@pytest.fixture(scope="module")
def places(target: LiveCluster) -> dict[bytes, int]:
    """Where a real Java producer puts each key of a topic of five partitions."""
    topic = target.create_topic(REMOTES, name=f"java-{unique_alias()}")
    return dict(zip(KEYS, place_with_java(target.bootstrap, topic, KEYS), strict=True))


def test_twelve_partitions_become_five_as_java_would_place_them(
    source: LiveCluster, target: LiveCluster, places: dict[bytes, int], tmp_path: Path
) -> None:
    topic = source.create_topic(SOURCES)
    same = source.create_topic(2)
    alias, other = unique_alias("A"), unique_alias("B")
    target.create_topic(REMOTES, name=f"{alias}.{topic}")
    source.produce(topic, some_records(0, 4000), compression_type="lz4")
    source.produce(same, [b"%d" % i for i in range(100)])
    properties = flow_properties(
        (alias, source.bootstrap),
        (other, target.bootstrap),
        f"{topic},{same}",
        target_partitions="target",
    )

    with Mirror(tmp_path, properties) as mirror:
        await_records(target, f"{alias}.{topic}", 4000, mirror)
        source.produce(topic, some_records(4000, 2000))
        await_records(target, f"{alias}.{topic}", 6000, mirror)
        source.produce(topic, some_records(6000, 2000), linger_ms=0)
        mirror.stop()  # wherever it is by now
        source.produce(topic, some_records(8000, 500))
        mirror.start()
        remote = await_records(target, f"{alias}.{topic}", 8500, mirror)
        await_records(target, f"{alias}.{same}", 100, mirror)

    assert target.partition_count(f"{alias}.{topic}") == REMOTES
    assert_placed(source.consume(topic), remote, places)
    assert target.partition_count(f"{alias}.{same}") == 2
    copied = target.consume(f"{alias}.{same}")
    assert [(r.partition, r.value) for r in copied] == [
        (r.partition, r.value) for r in source.consume(same)
    ]
    told = mirror.lines("is placed by key into the partitions=5")
    assert len(told) == 2, "once a start"
    assert all(topic in line for line in told)
    runs = f"mm2-runs.{alias}.internal"
    assert not [r for r in target.consume(runs) if topic.encode() in (r.key or b"")]
    assert [r for r in target.consume(runs) if same.encode() in (r.key or b"")]


def test_a_crash_loses_nothing_and_a_remote_topic_that_grew_is_copied_as_it_is(
    source: LiveCluster, target: LiveCluster, tmp_path: Path
) -> None:
    topic = source.create_topic(SOURCES)
    alias, other = unique_alias("A"), unique_alias("B")
    remote = f"{alias}.{topic}"
    properties = flow_properties(
        (alias, source.bootstrap), (other, target.bootstrap), topic, target_partitions=str(REMOTES)
    )

    with Mirror(tmp_path, properties) as mirror:
        source.produce(topic, some_records(0, 2000))
        await_records(target, remote, 2000, mirror)
        source.produce(topic, some_records(2000, 2000))
        mirror.kill()
        mirror.start()
        source.produce(topic, some_records(4000, 1000))
        eventually(lambda: len({r.value for r in target.consume(remote)}) == 5000, 90, mirror.tail)
        assert target.partition_count(remote) == REMOTES
        first_seen = by_key(target.consume(remote))
        expected = by_key(source.consume(topic))
        first_seen.pop(None), expected.pop(None)
        assert {key: list(dict.fromkeys(values)) for key, values in first_seen.items()} == expected

        target.admin.create_partitions([NewPartitions(remote, SOURCES)])[remote].result(timeout=30)
        numbers = iter(range(5000, 5600))

        def goes_straight() -> bool:
            number = next(numbers)
            source.produce(topic, [Outgoing(b"%d" % number, None, SOURCES - 1)])
            await_value(target, remote, b"%d" % number, mirror)
            return any(r.partition == SOURCES - 1 for r in target.consume(remote))

        eventually(goes_straight, 60, mirror.tail)
        before = len(target.consume(remote))
        source.produce(topic, some_records(6000, 500))
        copied = await_records(target, remote, before + 500, mirror)

    assert len(copied) == before + 500
    homes = {r.value: r.partition for r in source.consume(topic)}
    assert {r.value: r.partition for r in copied if int(r.value or 0) >= 6000} == {
        value: home for value, home in homes.items() if int(value or 0) >= 6000
    }
    assert not mirror.lines("somebody else writes")


def await_value(target: LiveCluster, topic: str, value: bytes, mirror: Mirror) -> None:
    eventually(lambda: any(r.value == value for r in target.consume(topic)), 30, mirror.tail)


def committed(source: LiveCluster, group: str, topic: str) -> int:
    """Return the sum of what a group has committed."""
    wanted = [RdPartition(topic, p) for p in range(source.partition_count(topic))]
    request = ConsumerGroupTopicPartitions(group, wanted)
    answer = source.admin.list_consumer_group_offsets([request])[group].result(timeout=30)
    return sum(max(p.offset, 0) for p in answer.topic_partitions)


def test_the_legacy_command_goes_on_from_the_offsets_of_the_group(
    source: LiveCluster, target: LiveCluster, places: dict[bytes, int], tmp_path: Path
) -> None:
    topic = source.create_topic(SOURCES)
    target.create_topic(REMOTES, name=topic)
    missing = source.create_topic(3)
    group = unique_alias("mm1-")
    landed = source.produce(topic, some_records(0, 2000))
    ends = {p: 1 + max(o for q, o in landed if q == p) for p, _ in landed}
    # What a MirrorMaker 1 leaves behind: it mirrored all but the last 10 of each partition.
    begun = [RdPartition(topic, p, end - 10) for p, end in ends.items()]
    source.admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, begun)])[
        group
    ].result(timeout=30)
    topics_before = source.topics(), target.topics()
    mirror = Legacy(
        tmp_path,
        source,
        target,
        *("--include", f"{topic},{missing}", "--num.streams", "3"),
        *("--offset.commit.interval.ms", "1000"),
        **{"group.id": group},
    )

    with mirror:
        await_records(target, topic, 120, mirror)
        eventually(lambda: committed(source, group, topic) == 2000, 30, mirror.tail)
        source.produce(topic, some_records(2000, 1000))
        eventually(lambda: target.partition_count(missing) == 3, 30, mirror.tail)
        # auto.offset.reset is latest for what the group has no offset of; by now it has.
        source.produce(missing, [b"%d" % i for i in range(30)])
        await_records(target, topic, 1120, mirror)
        await_records(target, missing, 30, mirror)
        mirror.stop()
        assert committed(source, group, topic) == 3000
        assert committed(source, group, missing) == 30
        source.produce(topic, some_records(3000, 500))
        mirror.start()
        remote = await_records(target, topic, 1620, mirror)

    firsts = {p: end - 10 for p, end in ends.items()}
    expected = [r for r in source.consume(topic) if r.offset >= firsts[r.partition]]
    assert_placed(expected, remote, places)
    assert target.partition_count(topic) == REMOTES
    added = (source.topics() - topics_before[0]) | (target.topics() - topics_before[1])
    assert {t for t in added if not t.startswith("__")} == {missing}
