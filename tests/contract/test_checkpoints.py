"""Where a group may continue on the target: it never skips a record and is never beyond the end."""

from itertools import pairwise

import pytest

from lab.clusters import Outgoing, unique_name
from tests.contract.brokers import assert_internal, commit, in_transactions
from tests.contract.systems import Flow, System

COUNT = 200


@pytest.fixture(scope="module")
def filled(system: System) -> str:
    """A topic with 200 records in each of two partitions, which came in waves, and their copies."""
    flow = system.flow("A", "B")
    topic = flow.create(2)
    for wave in range(4):
        records = [
            Outgoing(b"%d/%d" % (wave, number), partition=number % 2)
            for number in range(COUNT // 2)
        ]
        flow.source.produce(topic, records)
        flow.wait_for(topic, (wave + 1) * COUNT // 2)
    flow.assert_copied(topic)
    return topic


def test_checkpoints_have_a_compacted_topic_of_one_partition(system: System, filled: str) -> None:
    commit(system.a, unique_name(), filled, {0: 1})

    system.until(lambda: system.b.partition_count("A.checkpoints.internal"))

    assert_internal(system.b, "A.checkpoints.internal")
    assert "B.checkpoints.internal" not in system.b.topics()


def test_a_group_that_committed_has_a_checkpoint_with_its_metadata(
    there: Flow, filled: str
) -> None:
    group = unique_name()
    commit(there.source, group, filled, {0: COUNT, 1: 77}, metadata="wie geht's")

    for index, upstream in ((0, COUNT), (1, 77)):
        checkpoint = there.checkpoint_at(group, filled, index, upstream)
        assert checkpoint.partition.topic == f"A.{filled}"
        assert (
            checkpoint.metadata.rstrip("\0") == "wie geht's"
        )  # librdkafka commits C's last zero too
        assert there.assert_followed(group, filled, index, upstream) > 0
    assert not there.system.flow("B", "A").checkpoints(group)


def test_a_group_at_the_end_continues_at_the_end(there: Flow, filled: str) -> None:
    group = unique_name()
    commit(there.source, group, filled, {0: COUNT, 1: COUNT})

    def behind() -> list[int]:
        newest = {c.partition.index: c.downstream for c in there.checkpoints(group, filled)}
        remote = f"A.{filled}"
        copies = [r for r in there.target.consume(remote) if r.offset >= newest.get(r.partition, 0)]
        return [record.offset for record in copies]

    there.system.until(lambda: not behind())


def test_checkpoints_advance_with_a_group_that_is_far_behind(there: Flow, filled: str) -> None:
    group = unique_name()
    steps = (20, 70, 130, COUNT)
    for step, upstream in enumerate(steps):
        # Partition 1 goes back, which always makes a checkpoint: it tells that the commit was looked at.
        going_back = 100 - 10 * step
        commit(there.source, group, filled, {0: upstream, 1: going_back})
        there.checkpoint_at(group, filled, 1, going_back)

    there.assert_followed(group, filled, 0, COUNT)
    checkpoints = [c for c in there.checkpoints(group, filled) if c.partition.index == 0]
    assert len(checkpoints) >= 3
    assert all(earlier.downstream < later.downstream for earlier, later in pairwise(checkpoints))
    there.assert_nothing_skipped(filled, 0, *((c.upstream, c.downstream) for c in checkpoints))
    if there.system.is_exact:
        assert list(dict.fromkeys(c.upstream for c in checkpoints)) == list(steps)


def test_a_rewound_group_rewinds_its_checkpoint(there: Flow, filled: str) -> None:
    group = unique_name()
    commit(there.source, group, filled, {0: COUNT - 20})
    high = there.checkpoint_at(group, filled, 0, COUNT - 20)

    commit(there.source, group, filled, {0: 20})

    assert 0 < there.assert_followed(group, filled, 0, 20) < high.downstream


def test_groups_that_are_excluded_or_read_nothing_mirrored_have_no_checkpoints(
    there: Flow, filled: str
) -> None:
    private = there.create(prefix="private.")
    there.source.produce(private, [b"x"])
    console, stranger = f"console-consumer-{unique_name()}", unique_name()
    both = unique_name()
    commit(there.source, console, filled, {0: 5})
    commit(there.source, stranger, private, {0: 1})
    commit(there.source, both, filled, {0: 5})
    commit(there.source, both, private, {0: 1})

    there.pass_a_checkpoint(filled)

    there.checkpoint_at(both, filled, 0, 5)
    assert {c.partition.topic for c in there.checkpoints(both)} == {f"A.{filled}"}
    assert not there.checkpoints(console)
    assert not there.checkpoints(stranger)


def test_a_partition_without_a_mirrored_record_has_no_checkpoint(there: Flow) -> None:
    topic, group = there.create(2), unique_name()
    there.source.produce(topic, [Outgoing(b"%d" % number, partition=0) for number in range(5)])
    there.assert_copied(topic)
    commit(there.source, group, topic, {0: 5, 1: 0})
    there.checkpoint_at(group, topic, 0, 5)
    commit(there.source, group, topic, {0: 4})
    there.checkpoint_at(group, topic, 0, 4)
    assert {c.partition.index for c in there.checkpoints(group)} == {0}

    there.source.produce(topic, [Outgoing(b"first", partition=1)])
    there.assert_copied(topic)
    commit(there.source, group, topic, {1: 1})

    there.assert_followed(group, topic, 1, 1)


def test_offsets_among_transactions_skip_nothing(there: Flow) -> None:
    topic = there.create()
    in_transactions(there.source, topic, ["keep", "drop", "keep", "drop", "keep"])
    there.assert_copied(topic)
    # Each transaction is ten records and a marker.
    groups = {unique_name(): upstream for upstream in (5, 17, 44, 55)}
    for group, upstream in groups.items():
        commit(there.source, group, topic, {0: upstream})

    for group, upstream in groups.items():
        there.assert_followed(group, topic, 0, upstream)


def test_no_checkpoint_goes_back_while_a_group_advances(there: Flow) -> None:
    topic, group = there.create(), unique_name()
    for wave in range(6):
        there.source.produce(topic, [b"%d/%d" % (wave, number) for number in range(25)])
        there.wait_for(topic, wave * 25 + 25)
        commit(there.source, group, topic, {0: wave * 25 + 12})

    there.assert_followed(group, topic, 0, 137)
    offsets = [(c.upstream, c.downstream) for c in there.checkpoints(group, topic)]
    assert offsets == sorted(offsets)
    there.assert_nothing_skipped(topic, 0, *offsets)
