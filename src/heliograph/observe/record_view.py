"""Single records of a cluster, for a person to read.

Not of topics where Connect keeps the configs of connectors: they contain passwords.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from heliograph.config.flow import FlowConfig
from heliograph.config.naming import naming_of
from heliograph.errors import NotThere
from heliograph.kafka.browse import Browser, Excerpt
from heliograph.kafka.cluster import Cluster
from heliograph.model import Endpoint, TopicPartition
from heliograph.observe.looking import look_at
from heliograph.observe.shown import RecordShown, decoder_of, show_record

_CONFIGS_OF_MM2 = re.compile(r"mm2-configs\..*\.internal")
_USUAL_CONFIGS = "connect-configs"  # as in Connect's own file for workers


@dataclass(frozen=True, slots=True)
class Messages:
    """Records of a partition that reaches from `start` to `end`; go on at `next_offset`."""

    topic: str
    partition: int
    start: int
    end: int
    next_offset: int
    records: list[RecordShown]
    troubles: list[str]


def view_records(
    endpoint: Endpoint,
    alias: str,
    flows: Iterable[FlowConfig],
    partition: TopicPartition,
    read: Callable[[Browser], Excerpt],
) -> Messages:
    """Return records of a partition, as `read` takes them: as a read_committed consumer sees them."""
    with look_at(endpoint) as cluster:
        _must_exist(cluster, alias, partition)
        found = read(Browser(cluster, partition))
    decode = decoder_of(partition.topic, flows)
    return Messages(
        partition.topic,
        partition.index,
        found.start,
        found.end,
        found.next_offset,
        [show_record(record, decode) for record in found.records],
        list(found.troubles),
    )


def holds_configs(topic: str, flows: Iterable[FlowConfig]) -> bool:
    """Return whether a topic, or what it is a copy of, holds configs of connectors."""
    configs = list(flows)
    kept = {config.working.config_storage_topic for config in configs} | {_USUAL_CONFIGS}
    names = {topic, *(naming_of(config).original_topic(topic) for config in configs)}
    return not names.isdisjoint(kept) or any(map(_CONFIGS_OF_MM2.fullmatch, names))


def _must_exist(cluster: Cluster, alias: str, asked: TopicPartition) -> None:
    topic = cluster.describe([asked.topic]).get(asked.topic)
    if topic is None:
        raise NotThere(f"There is no topic {asked.topic} on {alias}.")
    if asked.index >= len(topic.leaders):
        raise NotThere(f"There is no partition {asked} on {alias}: count from 0.")
