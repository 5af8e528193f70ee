"""Our own routes, under /api: flows as they are, for pages and programs."""

from typing import Annotated, Any, Protocol, cast

from fastapi import APIRouter, Depends, Request

from heliograph.config.flow import FlowConfig
from heliograph.connect.herder import RestError
from heliograph.flows.upkeep import GroupStatus
from heliograph.observe.flow_status import FlowStatus, KeptGroups, PartitionStatus
from heliograph.web.events import Event, Events

router = APIRouter(prefix="/api", tags=["flows"])


class Flows(Protocol):
    """Access to the flows of this process."""

    def flows(self) -> list[FlowStatus]: ...
    def sources(self) -> dict[str, FlowConfig]: ...
    def partitions(self, flow: str) -> list[PartitionStatus]: ...
    def groups(self, flow: str) -> list[GroupStatus]: ...
    def kept_groups(self) -> list[KeptGroups]: ...


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
    return [{key: getattr(flow, key) for key in _SUMMARY} for flow in known.flows()]


@router.get("/flows/{flow}")
def get_flow(known: TheFlows, flow: str) -> FlowStatus:
    """Return a flow with its chores, what is stopped and what is waited for."""
    return find_flow(known, flow)


@router.get("/flows/{flow}/partitions")
def list_partitions(known: TheFlows, flow: str, topic: str | None = None) -> list[PartitionStatus]:
    """Return the partitions of a flow, or of one topic, with their offsets on either side."""
    find_flow(known, flow)
    return [p for p in known.partitions(flow) if topic in (None, p.topic)]


@router.get("/flows/{flow}/groups")
def list_groups(known: TheFlows, flow: str) -> list[GroupStatus]:
    """Return the groups of a flow, where each is on the target, and why one was not moved."""
    find_flow(known, flow)
    return known.groups(flow)


@router.get("/events")
def list_events(events: Annotated[Events, Depends(_events)], after: int = 0) -> list[Event]:
    """Return what this process said of late, after the event of that number."""
    return events.after(after)


def config_of(known: Flows, flow: str) -> FlowConfig:
    """Return the settings of a flow of this process."""
    for config in known.sources().values():
        if str(config.flow) == flow:
            return config
    raise _no_such_flow(known, flow)


def find_flow(known: Flows, flow: str) -> FlowStatus:
    """Return a flow of this process as it is."""
    for found in known.flows():
        if found.flow == flow:
            return found
    raise _no_such_flow(known, flow)


def _no_such_flow(known: Flows, flow: str) -> RestError:
    names = ", ".join(f.flow for f in known.flows()) or "none"
    return RestError(404, f"Flow {flow} is not of this process; there is {names}.")
