"""Routes for a flow's topics."""

from datetime import timedelta
from typing import Annotated, Final, Literal, cast

from fastapi import APIRouter, Depends, Request
from starlette.concurrency import run_in_threadpool

from heliograph.model import TopicPartition
from heliograph.observe.looking import fits
from heliograph.observe.topic_view import (
    Drift,
    RunsShown,
    TopicLines,
    TopicShown,
    find_drift,
    sum_up,
    view_runs,
    view_topic,
)
from heliograph.web.inquiries import Inquiries
from heliograph.web.looking import (
    FAULTS,
    LOOKS,
    Limit,
    Offset,
    Partition,
    Search,
    TopicInPath,
    as_a_gateway,
)
from heliograph.web.mirror import TheFlows, config_of, find_flow

router = APIRouter(prefix="/api/flows/{flow}", tags=["topics"])

_DRIFT_KEPT: Final = timedelta(seconds=60)
_TROUBLE_KEPT: Final = timedelta(seconds=15)
_DRIFT_WAIT: Final = timedelta(seconds=20)
_DRIFTS_AT_ONCE: Final = 8


async def _drifts(request: Request) -> Inquiries[Drift]:
    state = request.app.state
    if not hasattr(state, "drifts"):
        state.drifts = Inquiries[Drift]()
    return cast("Inquiries[Drift]", state.drifts)


_TheDrifts = Annotated[Inquiries[Drift], Depends(_drifts)]


@router.get("/topics")
def list_topics(
    known: TheFlows,
    flow: str,
    *,
    search: Search = "",
    sort: Literal["topic", "lag", "records", "bytes"] = "topic",
    offset: Offset = 0,
    limit: Limit = 100,
) -> TopicLines:
    """Return the topics of a flow whose name holds `search`: by name, or the largest first."""
    find_flow(known, flow)
    found = [line for line in sum_up(known.partitions(flow)) if fits(search, line.topic)]
    found.sort(key=lambda line: line.topic)
    if sort != "topic":
        found.sort(key=lambda line: int(getattr(line, sort)), reverse=True)
    return TopicLines(len(found), found[offset : offset + limit])


@router.get("/topics/{topic}", dependencies=LOOKS)
def get_topic(known: TheFlows, flow: str, topic: TopicInPath, *, runs: bool = True) -> TopicShown:
    """Return a topic at both ends; `troubles` tell what could not be found out. Run maps take long: ask seldom."""
    config = config_of(known, flow)
    with as_a_gateway():
        return view_topic(config, known.partitions(flow), topic, with_runs=runs)


@router.get("/topics/{topic}/runs", responses=FAULTS, dependencies=LOOKS)
def list_runs(
    known: TheFlows, flow: str, topic: TopicInPath, partition: Partition = 0
) -> RunsShown:
    """Return where the records of a partition went, the newest runs first."""
    config = config_of(known, flow)
    with as_a_gateway():
        return view_runs(config, known.partitions(flow), TopicPartition(topic, partition))


@router.get("/drift", responses=FAULTS)
async def get_drift(asked: _TheDrifts, known: TheFlows, flow: str) -> Drift:
    """Return the settings of topics that differ from those of their copies; found out once a minute."""
    config = await run_in_threadpool(config_of, known, flow)
    return await asked.ask(
        (flow, id(config)),
        lambda: find_drift(config),
        _DRIFT_WAIT,
        most=_DRIFTS_AT_ONCE,
        keep=lambda drift: _TROUBLE_KEPT if drift.troubles else _DRIFT_KEPT,
    )
