"""Heartbeats and offset syncs: where they are, what they look like, and that they are true."""

from itertools import pairwise
from statistics import median

from lab.clusters import Outgoing
from tests.contract.brokers import assert_internal, heartbeats
from tests.contract.systems import LAG_MAX, Flow, System


def test_heartbeats_are_written_to_the_target_at_their_interval(either: Flow) -> None:
    def beats() -> list[int]:
        names = either.source_alias, either.target_alias
        return [beat.timestamp_ms for beat in heartbeats(either.target, "heartbeats", *names)]

    either.system.until(lambda: len(beats()) > 5)

    assert_internal(either.target, "heartbeats")
    assert 700 < median(later - earlier for earlier, later in pairwise(beats())) < 2000


def test_a_heartbeat_has_the_time_of_its_record(there: Flow) -> None:
    there.system.until(lambda: heartbeats(there.target, "heartbeats", "A", "B"))

    for record in there.target.consume("heartbeats"):
        assert record.timestamp[1] == int.from_bytes((record.value or b"")[2:], "big")


def test_heartbeats_are_replicated_under_a_remote_name(either: Flow) -> None:
    remote = f"{either.source_alias}.heartbeats"
    names = either.target_alias, either.source_alias

    either.system.until(lambda: heartbeats(either.target, remote, *names))

    assert not heartbeats(either.target, remote, *reversed(names))
    either.pass_a_refresh()
    assert f"{either.target_alias}.{remote}" not in either.source.topics()


def test_offset_syncs_are_on_the_source_and_named_after_the_target(system: System) -> None:
    assert_internal(system.a, "mm2-offset-syncs.B.internal")
    assert_internal(system.b, "mm2-offset-syncs.A.internal")
    assert "mm2-offset-syncs.A.internal" not in system.a.topics()
    assert "mm2-offset-syncs.B.internal" not in system.b.topics()


def test_every_offset_sync_pairs_a_record_with_its_copy(there: Flow) -> None:
    topic = there.create(2)
    waves, each = 4, 3 * LAG_MAX
    for wave in range(waves):
        records = [Outgoing(b"%d/%d" % (wave, n), partition=n % 2) for n in range(2 * each)]
        there.source.produce(topic, records)
        there.wait_for(topic, (wave + 1) * 2 * each)

    def newest() -> list[int]:
        syncs = {sync.partition.index: sync.upstream for sync in there.syncs(topic)}
        return [syncs.get(index, -1) for index in range(2)]

    there.system.until(lambda: newest() == [waves * each - 1] * 2)
    originals = {(r.partition, r.offset): r.value for r in there.source.consume(topic)}
    copies = {(r.partition, r.offset): r.value for r in there.target.consume(there.remote(topic))}
    for sync in there.syncs(topic):
        index = sync.partition.index
        assert originals[index, sync.upstream] == copies[index, sync.downstream]
    for index in range(2):
        upstreams = [s.upstream for s in there.syncs(topic) if s.partition.index == index]
        assert upstreams == sorted(upstreams)


def test_the_first_record_of_a_partition_has_an_offset_sync(there: Flow) -> None:
    topic = there.create()
    there.source.produce(topic, [b"%d" % number for number in range(5 * LAG_MAX)])

    first = there.system.until(lambda: there.syncs(topic))[0]

    assert first.upstream == 0
