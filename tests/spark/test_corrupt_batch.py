"""A batch that rotted on the source's disk: its partition stops before it, the others go on."""

from pathlib import Path

import pytest

from lab.clusters import LiveCluster, Outgoing, eventually, start_live_cluster
from lab.mirrors import Mirror, flow_properties, unique_alias

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]


def test_a_rotten_batch_stops_its_partition_and_is_not_skipped(
    target: LiveCluster, tmp_path: Path
) -> None:
    rotten = start_live_cluster("rotten", tmp_path)
    try:
        topic = rotten.create_topic(2)
        for value in (b"good", b"to be spoilt", b"behind it"):
            rotten.produce(topic, [Outgoing(value, partition=0)])
        rotten.produce(topic, [Outgoing(b"elsewhere", partition=1)])
        rotten.cluster.stop()
        (log,) = tmp_path.rglob(f"{topic}-0/00000000000000000000.log")
        data = log.read_bytes()
        assert data.count(b"to be spoilt") == 1
        log.write_bytes(data.replace(b"to be spoilt", b"to be SPOILT"))
        rotten.cluster.start()

        alias = unique_alias()
        properties = flow_properties((alias, rotten.bootstrap), ("B", target.bootstrap), topic)
        with Mirror(tmp_path / "mirror", properties) as mirror:
            told = eventually(
                lambda: mirror.lines(f"{topic}-0 stopped", "does not match its CRC"),
                within=90,
                describe=mirror.tail,
            )
            assert "upstream offset 1" in told[0]
            remote = f"{alias}.{topic}"
            eventually(lambda: len(target.consume(remote)) == 2, describe=mirror.tail)
            assert [r.value for r in target.consume(remote)] == [b"good", b"elsewhere"]
    finally:
        rotten.cluster.wipe()
