"""Records, and which topics they come from."""

from confluent_kafka.admin import NewPartitions

from lab.clusters import Outgoing, unique_name
from tests.contract.brokers import in_transactions
from tests.contract.conftest import BEFORE
from tests.contract.systems import Flow, System

NOW = 1_790_000_000_000


def test_records_from_before_the_start_are_copied(there: Flow) -> None:
    there.assert_copied(BEFORE)


def test_records_arrive_once_in_order_with_all_that_they_have(either: Flow) -> None:
    topic = either.create(4)  # the last partition stays empty
    records = [
        Outgoing(
            value=None if number % 50 == 7 else b"value %d" % number,
            key=None if number % 50 == 8 else b"key %d" % number,
            partition=number % 3,
            timestamp=NOW + number * 17 % 1000,
            headers=(("h", b"%d" % number), ("h", b"again"), ("null", None), ("", b"")),
        )
        for number in range(300)
    ]
    either.source.produce(topic, records)

    either.assert_copied(topic)
    assert either.target.partition_count(either.remote(topic)) == 4
    more = [Outgoing(b"later %d" % number, partition=number % 3) for number in range(50)]
    either.source.produce(topic, more)

    either.assert_copied(topic)


def test_new_partitions_are_followed(there: Flow) -> None:
    topic = there.create(1)
    there.source.produce(topic, [b"before"])
    there.assert_copied(topic)

    there.source.admin.create_partitions([NewPartitions(topic, 3)])[topic].result(timeout=30)
    there.system.until(lambda: there.source.partition_count(topic) == 3)
    there.source.produce(topic, [Outgoing(b"in %d" % p, partition=p) for p in range(3)])

    there.assert_copied(topic)


def test_a_remote_topic_does_not_go_back(system: System, there: Flow, back: Flow) -> None:
    topic = there.create(2)
    system.b.create_topic(2, name=topic)
    there.source.produce(topic, [Outgoing(b"a %d" % n, partition=n % 2) for n in range(40)])
    back.source.produce(topic, [Outgoing(b"b %d" % n, partition=n % 2) for n in range(40)])

    there.assert_copied(topic)
    back.assert_copied(topic)
    there.pass_a_refresh()
    back.pass_a_refresh()

    there.assert_copied(topic)
    assert len(system.a.consume(topic)) == len(system.b.consume(topic)) == 40
    looped = {f"A.B.{topic}", f"B.A.{topic}"}
    assert not looped & (system.a.topics() | system.b.topics())


def test_a_topic_of_ones_own_with_the_alias_of_the_target_is_not_copied(there: Flow) -> None:
    topics = [there.create(prefix=prefix) for prefix in ("B.", "C.B.")]

    there.pass_a_refresh()

    assert not {there.remote(topic) for topic in topics} & there.target.topics()


def test_excluded_and_internal_topics_are_not_copied(there: Flow) -> None:
    kept_back = [
        form.format(unique_name())
        for form in (
            "__{}",
            ".{}",
            "{}.replica",
            "mm2-{}.internal",
            "C.checkpoints.internal",
            "private.{}",
        )
    ]
    copied = [
        form.format(unique_name())
        for form in ("_{}", "{}_internal", "{}.internal", "{}-internal", "{}.private.x")
    ]
    for topic in (*kept_back, *copied):
        there.source.create_topic(name=topic)

    there.pass_a_refresh()

    there.system.until(lambda: {there.remote(topic) for topic in copied} <= there.target.topics())
    assert not {there.remote(topic) for topic in kept_back} & there.target.topics()


def test_no_topic_of_the_systems_own_is_copied_but_heartbeats(system: System, there: Flow) -> None:
    there.pass_a_refresh()

    copied = {
        topic
        for cluster, remote in ((system.a, "B."), (system.b, "A."))
        for topic in cluster.topics()
        if topic.startswith(remote) and "test_" not in topic
    }
    own = {"A.checkpoints.internal", "B.checkpoints.internal"}
    assert copied - own == {"A.heartbeats", "B.heartbeats", f"A.{BEFORE}"}


def test_records_of_aborted_transactions_are_not_copied(there: Flow) -> None:
    topic = there.create()
    in_transactions(there.source, topic, ["keep", "drop", "keep", "drop", "keep"])

    there.assert_copied(topic)

    everything = there.target.consume(there.remote(topic), isolation="read_uncommitted")
    committed = there.target.consume(there.remote(topic))
    values = [record.value for record in everything]
    assert values == [record.value for record in committed]
    assert values == [b"keep %d" % n for t in (0, 2, 4) for n in range(t * 10, t * 10 + 10)]
