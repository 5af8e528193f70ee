"""Routes for single records of a cluster, and for where one record of a flow went."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query

from heliograph.config.naming import naming_of
from heliograph.connect.herder import RestError
from heliograph.kafka.browse import Browser, Excerpt
from heliograph.model import TopicPartition
from heliograph.observe.record_view import Messages, holds_configs, view_records
from heliograph.observe.topic_view import find_runs
from heliograph.web.clusters import find_cluster
from heliograph.web.looking import FAULTS, LOOKS, Offset, Partition, TopicInQuery, as_a_gateway
from heliograph.web.mirror import TheFlows, config_of

router = APIRouter(prefix="/api", tags=["messages"])

_INT64_MAX = 2**63 - 1
_USUALLY = 50


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

    def read(browser: Browser) -> Excerpt:
        if offset is not None:
            return browser.read_from(offset, limit or _USUALLY)
        if time_ms is not None:
            return browser.read_since(time_ms, limit or _USUALLY)
        most = last or _USUALLY
        return browser.read_last(min(most, limit or most))

    with as_a_gateway():
        return view_records(endpoint, alias, flows, TopicPartition(topic, partition), read)


@router.get("/flows/{flow}/translate", responses=FAULTS, dependencies=LOOKS)
def translate(
    known: TheFlows, flow: str, topic: TopicInQuery, partition: Partition, offset: Offset
) -> Translated:
    """Return where an offset of a source topic is on the target; null where no run map tells."""
    config = config_of(known, flow)
    remote = naming_of(config).format_remote_topic(config.flow.source, topic)
    with as_a_gateway():
        found = find_runs(config, known.partitions(flow), TopicPartition(topic, partition))
    return Translated(remote, partition, found.downstream_of(offset) if found else None)
