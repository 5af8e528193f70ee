"""A compacted topic as a table: read whole, written by key."""

from collections.abc import Iterator, Mapping
from datetime import timedelta

from heliograph.errors import KafkaFault
from heliograph.kafka.append import PATIENCE, Appender, Row
from heliograph.kafka.author import Author
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.rows import LONGEST, read_partitions
from heliograph.kafka.topics import await_topics, create_topic

_OPEN = timedelta(seconds=90)  # longer than transactions of ours may be open


class Table:
    """One compacted topic; keys are placed as Kafka's own partitioner places them."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self.topic = topic
        self._appender = Appender(cluster, topic)

    def sign_as(self, author: Author) -> None:
        """Write as a fenced author from now on."""
        self._appender.author = author

    def ensure(
        self,
        partitions: int,
        replication_factor: int,
        within: timedelta = PATIENCE,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Create the topic if it is not there; `config` are settings beside its cleanup policy."""
        if self.topic not in patiently(lambda: self._cluster.describe([self.topic]), within):
            settings = {**(config or {}), "cleanup.policy": "compact"}
            patiently(
                lambda: create_topic(
                    self._cluster, self.topic, partitions, replication_factor, settings
                ),
                within,
            )
            await_topics(self._cluster, {self.topic: partitions})

    def read(self) -> dict[bytes, bytes]:
        """Return the latest value of every key, up to the end as it is now; a deleted key is absent.

        Transactions that are open now are waited for: what was committed behind them counts.
        """
        rows: dict[bytes, bytes] = {}
        for key, value in read_rows(self._cluster, self.topic, within=_OPEN, past_open=True):
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = value
        return rows

    def write(self, rows: Mapping[bytes, bytes | None], within: timedelta = PATIENCE) -> None:
        """Store `rows`, and return when the cluster has them; a None deletes its key."""
        self._appender.append_by_key(rows.items(), within)


def read_rows(
    cluster: Cluster, topic: str, *, within: timedelta = LONGEST, past_open: bool = False
) -> Iterator[Row]:
    """Yield every row of a topic up to its end as it is now, in order within partitions.

    What no consumer sees, and what has no key, is left out.
    """
    topics = patiently(lambda: cluster.describe([topic]))
    if topic not in topics:
        raise KafkaFault(f"read {topic}", "UNKNOWN_TOPIC_OR_PARTITION", retriable=False)
    yield from read_partitions(cluster, topics[topic].partitions, within, past_open=past_open)
