"""What an application imports: queries about a mirror, and a consumer that fails over by itself."""

from heliograph.client.consumer import FailoverConsumer, Move
from heliograph.client.mirror import (
    PATIENCE,
    MirrorClient,
    OffsetAndMetadata,
    Offsets,
    Where,
    checkpoint_topics,
    client_endpoint,
    client_naming,
    heartbeat_topics,
    latest_offsets,
    remote_topics,
    replication_hops,
    translate_offsets,
    upstream_clusters,
)
from heliograph.client.places import How, Place, Plan, Stream
from heliograph.errors import MirrorError, NotTranslated
from heliograph.model import Endpoint, TopicPartition
from heliograph.policy.runs import RunMap

__all__ = [
    "PATIENCE",
    "Endpoint",
    "FailoverConsumer",
    "How",
    "MirrorClient",
    "MirrorError",
    "Move",
    "NotTranslated",
    "OffsetAndMetadata",
    "Offsets",
    "Place",
    "Plan",
    "RunMap",
    "Stream",
    "TopicPartition",
    "Where",
    "checkpoint_topics",
    "client_endpoint",
    "client_naming",
    "heartbeat_topics",
    "latest_offsets",
    "remote_topics",
    "replication_hops",
    "translate_offsets",
    "upstream_clusters",
]
