"""A task that has all that is hot, on brokers that slow it down until somebody helps."""

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from kafka.protocol.admin import AlterClientQuotasRequest

from heliograph.embedded.ports import pick_port
from heliograph.kafka.cluster import Cluster
from lab.clusters import LiveCluster, Outgoing, eventually
from lab.counting import endpoint
from lab.mirrors import Mirror, assert_copied, flow_properties, unique_alias

pytestmark = [pytest.mark.spark, pytest.mark.long]

BYTES_PER_SECOND = 400_000
RECORDS = 40_000


@contextmanager
def throttled(cluster: LiveCluster) -> Iterator[None]:
    """Let nobody read more than some bytes in a second."""
    _set_quota(cluster, remove=False)
    try:
        yield
    finally:
        _set_quota(cluster, remove=True)


def _set_quota(cluster: LiveCluster, *, remove: bool) -> None:
    entry = AlterClientQuotasRequest.EntryData
    everyone = entry.EntityData(entity_type="client-id", entity_name=None)
    rate = entry.OpData(key="consumer_byte_rate", value=float(BYTES_PER_SECOND), remove=remove)
    request = AlterClientQuotasRequest(entries=[entry(entity=[everyone], ops=[rate])])
    with closing(Cluster(endpoint(cluster))) as brokers:
        (answer,) = brokers.call(request).entries
    assert answer.error_code == 0, answer.error_message


def spread(rest: str, connector: str) -> list[set[int]]:
    """Return the partitions of each task that has some."""
    name = quote(connector, safe="")
    tasks = httpx.get(f"{rest}/connectors/{name}/tasks").raise_for_status().json()
    named = [task["config"].get("task.assigned.partitions") for task in tasks]
    return [{int(n.rpartition("-")[2]) for n in names.split(",")} for names in named if names]


def test_a_task_that_has_all_hot_partitions_gives_some_away(
    source: LiveCluster, target: LiveCluster, tmp_path: Path
) -> None:
    alias, other = unique_alias("A"), unique_alias("B")
    topic = source.create_topic(4)
    properties = flow_properties(
        (alias, source.bootstrap),
        (other, target.bootstrap),
        topic,
        tasks_max="2",
    )
    listener = f"127.0.0.1:{pick_port()}"

    def load(partitions: Iterable[int]) -> None:
        value = b"x" * 1000
        source.produce(
            topic, [Outgoing(value, partition=p) for p in partitions for _ in range(RECORDS // 2)]
        )

    with Mirror(tmp_path, properties, arguments=("--listen", listener)) as mirror:
        rest, connector = f"http://{listener}", f"{alias}->{other}.MirrorSourceConnector"
        source.produce(topic, [Outgoing(b"first", partition=p) for p in range(4)])
        assert_copied(source, topic, target, f"{alias}.{topic}", mirror)

        with throttled(source):
            load(range(4))
            eventually(lambda: len(spread(rest, connector)) == 2, 100, mirror.tail)
        assert_copied(source, topic, target, f"{alias}.{topic}", mirror, within=60)

        with throttled(source):
            hot = next(its for its in spread(rest, connector) if len(its) > 1)
            load(hot)
            eventually(lambda: all(hot & its for its in spread(rest, connector)), 100, mirror.tail)
            now = spread(rest, connector)

        assert set().union(*now) == {0, 1, 2, 3}
        assert_copied(source, topic, target, f"{alias}.{topic}", mirror, within=60)
