"""What the demos ask of clusters themselves."""

from contextlib import closing, suppress

from kafka import KafkaAdminClient, KafkaConsumer
from kafka import TopicPartition as Place
from kafka.admin import NewTopic

from heliograph.client import MirrorClient, TopicPartition
from heliograph.errors import NotMirrored


def make_topic(bootstrap: str, topic: str, partitions: int, replicas: int = 1) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        admin.create_topics([NewTopic(topic, partitions, replicas)], wait_for_metadata=True)


def topics_of(bootstrap: str) -> list[str]:
    """Return the topics of a cluster but those of Kafka itself."""
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        return sorted(topic for topic in admin.list_topics() if not topic.startswith("__"))


def count_of(bootstrap: str, topic: str) -> int:
    """Return how many messages a topic has taken, where nothing but single messages was written."""
    with closing(KafkaConsumer(bootstrap_servers=bootstrap)) as consumer:
        places = [Place(topic, p) for p in consumer.partitions_for_topic(topic) or ()]
        return sum(consumer.end_offsets(places).values())


def is_level(
    bootstrap: str, alias: str, topic: str, group: str, *, written: int, committed: int
) -> bool:
    """Whether the copy of a topic of one partition has all that was written, and the group's checkpoint its commit."""
    with suppress(NotMirrored), MirrorClient(bootstrap) as client:
        runs = client.run_maps(alias).get(TopicPartition(topic, 0))
        if not runs or runs.end is None or runs.end.upstream_end < written:
            return False
        copy = TopicPartition(f"{alias}.{topic}", 0)
        told = client.remote_consumer_offsets(group, alias).get(copy)
        return told is not None and told.offset == runs.downstream_of(committed)
    return False
