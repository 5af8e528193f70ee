"""Single records of a cluster, and where one record of a flow went.

Not of topics where Connect keeps the configs of connectors: there are passwords in them.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query

from heliograph.config.flow import FlowConfig
from heliograph.config.settings_worker import CONFIG_STORAGE_TOPIC
from heliograph.control.connect import RestError
from heliograph.flows.source import naming_of
from heliograph.kafka.browse import Browser, Excerpt
from heliograph.kafka.cluster import Cluster
from heliograph.model import TopicPartition
from heliograph.web.clusters import find_cluster
from heliograph.web.looking import FAULTS, LOOKS, Offset, Partition, TopicInQuery, look_at
from heliograph.web.mirror import TheFlows, config_of
from heliograph.web.shown import RecordShown, decoder_of, show_record
from heliograph.web.topics import runs_of

router = APIRouter(prefix="/api", tags=["messages"])

_CONFIGS_OF_MM2 = re.compile(r"mm2-configs\..*\.internal")
_USUAL_CONFIGS = "connect-configs"  # as Connect's own file for workers has it
_INT64_MAX = 2**63 - 1
_USUALLY = 50


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


@dataclass(frozen=True, slots=True)
class Translated:
    remote_topic: str
    partition: int
    offset: int | None


@router.get("/clusters/{alias}/messages", responses=FAULTS, dependencies=LOOKS)
def list_messages(
    known: TheFlows,
    alias: str,
    *,
    topic: TopicInQuery,
    partition: Partition = 0,
    offset: Annotated[int | None, Query(ge=0, le=_INT64_MAX)] = None,
    time_ms: Annotated[int | None, Query(ge=0, le=_INT64_MAX)] = None,
    last: Annotated[int | None, Query(ge=1, le=200)] = None,
    limit: Annotated[int | None, Query(ge=1, le=200)] = None,
) -> Messages:
    """Return records from an offset or a time on, or the last ones: as a read_committed consumer sees them."""
    if sum(given is not None for given in (offset, time_ms, last)) != 1:
        raise RestError(400, "say from where: one of offset, time_ms and last, and only one.")
    endpoint, flows = find_cluster(known, alias)
    if holds_configs(topic, known.sources().values()):
        raise RestError(
            403, f"{topic} holds configs of connectors, and so passwords: see connectors."
        )
    asked = TopicPartition(topic, partition)
    with look_at(endpoint) as cluster:
        _must_exist(cluster, alias, asked)
        browser = Browser(cluster, asked)
        found: Excerpt
        if offset is not None:
            found = browser.read_from(offset, limit or _USUALLY)
        elif time_ms is not None:
            found = browser.read_since(time_ms, limit or _USUALLY)
        else:
            most = last or _USUALLY
            found = browser.read_last(min(most, limit or most))
    decode = decoder_of(topic, flows)
    return Messages(
        topic,
        partition,
        found.start,
        found.end,
        found.next_offset,
        [show_record(record, decode) for record in found.records],
        list(found.troubles),
    )


@router.get("/flows/{flow}/translate", responses=FAULTS, dependencies=LOOKS)
def translate(
    known: TheFlows, flow: str, topic: TopicInQuery, partition: Partition, offset: Offset
) -> Translated:
    """Return where an offset of a source topic is on the target; null where no run map tells."""
    config = config_of(known, flow)
    remote = naming_of(config).format_remote_topic(config.flow.source, topic)
    found = runs_of(known, flow, TopicPartition(topic, partition))
    return Translated(remote, partition, found.downstream_of(offset) if found else None)


def holds_configs(topic: str, flows: Iterable[FlowConfig]) -> bool:
    """Tell whether a topic, or what it is a copy of, is where configs of connectors are kept."""
    configs = list(flows)
    kept = {config.worker.get(CONFIG_STORAGE_TOPIC.name) for config in configs} | {_USUAL_CONFIGS}
    names = {topic, *(naming_of(config).original_topic(topic) for config in configs)}
    return not names.isdisjoint(kept) or any(map(_CONFIGS_OF_MM2.fullmatch, names))


def _must_exist(cluster: Cluster, alias: str, asked: TopicPartition) -> None:
    topic = cluster.describe([asked.topic]).get(asked.topic)
    if topic is None:
        raise RestError(404, f"There is no topic {asked.topic} on {alias}.")
    if asked.index >= len(topic.leaders):
        raise RestError(404, f"There is no partition {asked} on {alias}: count from 0.")
