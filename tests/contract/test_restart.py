"""What a stop and a start keep; MirrorMaker 2 does not promise that no record is repeated."""

from lab.clusters import unique_name
from tests.contract.brokers import commit, committed
from tests.contract.systems import Flow


def test_a_restart_loses_no_record_and_takes_no_checkpoint_back(there: Flow) -> None:
    system, topic, group = there.system, there.create(), unique_name()
    there.source.produce(topic, [b"before %d" % number for number in range(60)])
    there.wait_for(topic, 60)
    commit(there.source, group, topic, {0: 30})
    there.checkpoint_at(group, topic, 0, 30)
    there.source.produce(topic, [b"cut off %d" % number for number in range(500)])

    system.program.stop()
    there.source.produce(topic, [b"down %d" % number for number in range(60)])
    late = there.create(2)
    there.source.produce(late, [b"%d" % number for number in range(10)])
    commit(there.source, group, topic, {0: 590})  # ahead of what is mirrored
    system.program.start()
    there.source.produce(topic, [b"after %d" % number for number in range(60)])

    there.assert_copied(late)
    expected = [record.value for record in there.source.consume(topic)]

    def copied() -> list[bytes | None]:
        return [record.value for record in there.target.consume(there.remote(topic))]

    system.until(lambda: len(set(copied())) == len(expected))
    assert list(dict.fromkeys(copied())) == expected
    if system.is_exact:
        assert copied() == expected
    commit(there.source, group, topic, {0: 680})
    newest = there.assert_followed(group, topic, 0, 680)
    offsets = [(c.upstream, c.downstream) for c in there.checkpoints(group, topic)]
    assert offsets == sorted(offsets)
    there.assert_nothing_skipped(topic, 0, *offsets)
    remote = there.remote(topic)
    system.until(lambda: committed(there.target, group, remote).get(0) == newest)
