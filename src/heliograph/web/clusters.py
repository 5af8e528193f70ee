"""Routes for the source and target clusters of this process's flows."""

from typing import Annotated

from fastapi import APIRouter, Query

from heliograph.config.flow import FlowConfig
from heliograph.model import Endpoint
from heliograph.observe import cluster_view
from heliograph.observe.cluster_view import (
    ClusterLine,
    ClusterShown,
    GroupLines,
    GroupShown,
    TopicLine,
    TopicLines,
    TopicShown,
)
from heliograph.observe.looking import fits
from heliograph.web.looking import (
    FAULTS,
    LOOKS,
    Limit,
    Offset,
    Search,
    TopicInPath,
    as_a_gateway,
)
from heliograph.web.mirror import Flows, TheFlows

router = APIRouter(prefix="/api/clusters", tags=["clusters"])


def find_cluster(known: Flows, alias: str) -> tuple[Endpoint, list[FlowConfig]]:
    """Return how to reach a cluster of this process's flows, and these flows."""
    with as_a_gateway():
        return cluster_view.find_cluster(known.sources().values(), alias)


@router.get("")
def list_clusters(known: TheFlows) -> list[ClusterLine]:
    """Return every cluster that a flow of this process names; none of them is asked."""
    return cluster_view.list_known(known.sources().values())


@router.get("/{alias}", responses=FAULTS, dependencies=LOOKS)
def get_cluster(known: TheFlows, alias: str) -> ClusterShown:
    """Return the brokers of a cluster, and what is amiss with its partitions."""
    endpoint, _ = find_cluster(known, alias)
    with as_a_gateway():
        return cluster_view.view_cluster(endpoint, alias)


@router.get("/{alias}/topics", responses=FAULTS, dependencies=LOOKS)
def list_topics(
    known: TheFlows,
    alias: str,
    search: Search = "",
    *,
    internal: bool = False,
    offset: Offset = 0,
    limit: Limit = 100,
) -> TopicLines:
    """Return the topics of a cluster whose name holds `search`; internal ones if they are asked for."""
    endpoint, flows = find_cluster(known, alias)

    def is_wanted(line: TopicLine) -> bool:
        return fits(search, line.topic) and (internal or not line.internal)

    with as_a_gateway():
        found = cluster_view.view_topics(endpoint, flows, is_wanted)
    return TopicLines(len(found), found[offset : offset + limit])


@router.get("/{alias}/topics/{topic}", responses=FAULTS, dependencies=LOOKS)
def get_topic(known: TheFlows, alias: str, topic: TopicInPath) -> TopicShown:
    """Return the partitions of a topic and its settings; the value of a secret one is null."""
    endpoint, _ = find_cluster(known, alias)
    with as_a_gateway():
        return cluster_view.view_topic(endpoint, alias, topic)


@router.get("/{alias}/groups", responses=FAULTS, dependencies=LOOKS)
def list_the_groups(
    known: TheFlows, alias: str, search: Search = "", offset: Offset = 0, limit: Limit = 100
) -> GroupLines:
    """Return the groups of a cluster, of all kinds, whose name holds `search`."""
    endpoint, _ = find_cluster(known, alias)
    with as_a_gateway():
        found = cluster_view.view_groups(endpoint, lambda group: fits(search, group))
    return GroupLines(len(found), found[offset : offset + limit])


@router.get("/{alias}/group", responses=FAULTS, dependencies=LOOKS)
def get_group(
    known: TheFlows, alias: str, name: Annotated[str, Query(max_length=1000)]
) -> GroupShown:
    """Return who is in a group, and how far it has come. Its name may hold slashes, so it is no path."""
    endpoint, _ = find_cluster(known, alias)
    with as_a_gateway():
        return cluster_view.view_group(endpoint, alias, name)
