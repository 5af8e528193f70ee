"""A topic with offset gaps left by compaction."""

from collections.abc import Mapping

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from lab.clusters import LiveCluster, Outgoing, eventually

_YEAR_MS = 365 * 24 * 3600 * 1000
_CONFIG = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": str(_YEAR_MS),
}


def create_compacted(cluster: LiveCluster, name: str) -> str:
    """Create a topic in which most offsets are gone, tombstones are left, and nothing is compacted any more."""
    alter_config(cluster, ResourceType.BROKER, "1", {"log.cleaner.backoff.ms": "200"})
    topic = cluster.create_topic(2, _CONFIG, name=name)
    written = 0
    for round_ in range(15):
        keys = [key for key in range(30) if (key + round_) % 3]
        written += len(keys)
        cluster.produce(
            topic,
            [
                Outgoing(
                    None if key % 5 == 0 else b"%d in %d" % (key, round_),
                    key=b"key-%d" % key,
                    partition=key % 2,
                )
                for key in keys
            ],
        )

    def is_compacted() -> bool:
        # Only an append closes a segment, and only closed ones are compacted.
        cluster.produce(topic, [Outgoing(b"", key=b"roll", partition=p) for p in (0, 1)])
        return len(cluster.consume(topic)) < written / 3

    eventually(is_compacted, within=60)
    kept = {"cleanup.policy": "delete", "retention.ms": "-1"}
    alter_config(cluster, ResourceType.TOPIC, topic, kept)
    return topic


def alter_config(
    cluster: LiveCluster, kind: ResourceType, name: str, settings: Mapping[str, str]
) -> None:
    """Change some settings of a topic or a broker."""
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        for key, value in settings.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    for altered in cluster.admin.incremental_alter_configs([resource]).values():
        altered.result(timeout=30)
