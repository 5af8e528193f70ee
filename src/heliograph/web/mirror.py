"""Our own routes, under /api: flows as they are, for pages and programs."""

from dataclasses import asdict
from typing import Annotated, Any, Protocol, cast

from fastapi import APIRouter, Depends, Request

from heliograph.control.connect import RestError
from heliograph.control.flow_status import FlowStatus, PartitionStatus
from heliograph.flows.upkeep import GroupStatus
from heliograph.web.events import Event, Events

router = APIRouter(prefix="/api", tags=["flows"])


class Flows(Protocol):
    """Who knows the flows of this process."""

    def flows(self) -> list[FlowStatus]: ...
    def partitions(self, flow: str) -> list[PartitionStatus]: ...
    def groups(self, flow: str) -> list[GroupStatus]: ...


async def _flows(request: Request) -> Flows:
    return cast(Flows, request.app.state.herder)


async def _events(request: Request) -> Events:
    return cast(Events, request.app.state.events)


TheFlows = Annotated[Flows, Depends(_flows)]
_SUMMARY = (
    "flow",
    "state",
    "reason",
    "topics",
    "partitions",
    "records",
    "bytes",
    "lag",
    "latency_ms",
)


@router.get("/flows")
def list_flows(known: TheFlows) -> list[dict[str, Any]]:
    """Return every flow of this process, in short."""
    return [{key: asdict(flow)[key] for key in _SUMMARY} for flow in known.flows()]


@router.get("/flows/{flow}")
def get_flow(known: TheFlows, flow: str) -> FlowStatus:
    """Return a flow with its chores, what is stopped and what is waited for."""
    return _find(known, flow)


@router.get("/flows/{flow}/topics")
def list_topics(known: TheFlows, flow: str) -> list[dict[str, Any]]:
    """Return the topics of a flow: partitions, records and lag of each."""
    _find(known, flow)
    topics: dict[str, dict[str, Any]] = {}
    for partition in known.partitions(flow):
        topic = topics.setdefault(
            partition.topic,
            {
                "topic": partition.topic,
                "remote_topic": partition.remote_topic,
                "partitions": 0,
                "records": 0,
                "bytes": 0,
                "lag": 0,
                "stopped": 0,
            },
        )
        topic["partitions"] += 1
        topic["records"] += partition.records
        topic["bytes"] += partition.bytes
        topic["lag"] += partition.lag
        topic["stopped"] += partition.stopped is not None
    return sorted(topics.values(), key=lambda topic: str(topic["topic"]))


@router.get("/flows/{flow}/partitions")
def list_partitions(known: TheFlows, flow: str, topic: str | None = None) -> list[PartitionStatus]:
    """Return the partitions of a flow, or of one topic, with their offsets on either side."""
    _find(known, flow)
    return [p for p in known.partitions(flow) if topic in (None, p.topic)]


@router.get("/flows/{flow}/groups")
def list_groups(known: TheFlows, flow: str) -> list[GroupStatus]:
    """Return the groups of a flow, where each stands on the target, and why one was not moved."""
    _find(known, flow)
    return known.groups(flow)


@router.get("/events")
def list_events(events: Annotated[Events, Depends(_events)], after: int = 0) -> list[Event]:
    """Return what this process said of late, after the event of that number."""
    return events.after(after)


def _find(known: Flows, flow: str) -> FlowStatus:
    for found in known.flows():
        if found.flow == flow:
            return found
    names = ", ".join(f.flow for f in known.flows()) or "none"
    raise RestError(404, f"Flow {flow} is not of this process; there is {names}.")
