"""All flows at a glance: once, live, and over the last hour; and who is asking."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from heliograph.config.access import Role
from heliograph.connect.herder import RestError
from heliograph.observe.audits import DrillStatus, VerifyStatus
from heliograph.observe.metrics import split
from heliograph.observe.watch import FlowLook, Look, Sample, Watch
from heliograph.web import shapes
from heliograph.web.access import who_asks
from heliograph.web.events import Events
from heliograph.web.metrics import Desk, take_snapshot
from heliograph.web.mirror import Flows, TheFlows, find_flow

router = APIRouter(prefix="/api", tags=["overview"])

_PERIOD = 1.0
_LISTENERS = 50
_HOUR = 3600


class Live:
    """The watch and the number of its listeners, until `end`."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.listeners = 0
        self.ended = False

    def end(self) -> None:
        """Let all streams end within a second."""
        self.ended = True
        self.watch.stop()


def mount(app: FastAPI, known: Flows, desk: Desk) -> None:
    """Serve the overview, from samples that begin now."""
    watch = Watch(lambda: take_snapshot(known, desk.audits), desk.observer)
    watch.start()
    app.state.live = Live(watch)
    app.include_router(router)


async def _live(request: Request) -> Live:
    return cast(Live, request.app.state.live)


TheLive = Annotated[Live, Depends(_live)]


@router.get("/me")
async def get_me(request: Request) -> dict[str, Any]:
    """Return who asks, what they may do, and whether connectors can be changed here at all."""
    entry = who_asks(request.scope)
    return {
        "name": entry.name if entry else None,
        "role": str(entry.role if entry else Role.FAILOVER),
        "read_only": request.app.state.read_only,
        "version": shapes.version(),
    }


@router.get("/overview")
def get_overview(live: TheLive, known: TheFlows) -> dict[str, Any]:
    """Return clusters and flows, with what is only known over time."""
    return _overview(live.watch.look(), known)


@router.get("/flows/{flow}/history")
def get_history(
    live: TheLive,
    known: TheFlows,
    flow: str,
    seconds: Annotated[int, Query(ge=1, le=_HOUR)] = 900,
) -> dict[str, list[float | None]]:
    """Return a flow every 5 s, a column for each number."""
    find_flow(known, flow)
    samples = live.watch.history(flow, seconds)
    return {field: [sample[i] for sample in samples] for i, field in enumerate(Sample._fields)}


@router.get(
    "/live",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def stream(request: Request, live: TheLive, known: TheFlows) -> StreamingResponse:
    """Send the overview each second, and what is logged, as server-sent events."""
    if live.listeners >= _LISTENERS:
        raise RestError(503, f"{_LISTENERS} listen already. Close a page, or ask /api/overview.")
    told = _tell(live, known, cast(Events, request.app.state.events))
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(told, media_type="text/event-stream", headers=headers)


async def _tell(live: Live, known: Flows, events: Events) -> AsyncIterator[str]:
    live.listeners += 1
    seen = events.last()
    try:
        while not live.ended:
            look = await run_in_threadpool(lambda: _overview(live.watch.look(), known))
            yield _event("overview", look)
            for event in events.after(seen):
                seen = event.number
                yield _event("log", asdict(event))
            await asyncio.sleep(_PERIOD)
    finally:
        live.listeners -= 1


def _event(kind: str, data: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n"


def _overview(look: Look, known: Flows) -> dict[str, Any]:
    connectors = {str(config.flow): name for name, config in known.sources().items()}
    return {
        "time_ms": look.time_ms,
        "clusters": [asdict(cluster) for cluster in look.clusters],
        "flows": [_flow(flow, connectors.get(flow.status.flow)) for flow in look.flows],
    }


def _flow(look: FlowLook, connector: str | None) -> dict[str, Any]:
    status, sample = look.status, look.sample._asdict()
    del sample["time"]
    source, target = split(status.flow)
    return {
        "flow": status.flow,
        "source": source,
        "target": target,
        "connector": connector,
        "state": status.state.value,
        "health": look.health,
        "reason": look.reason,
        "topics": status.topics,
        "partitions": status.partitions,
        "records": status.records,
        "bytes": status.bytes,
        **sample,
        "rpo_worst_seconds": look.rpo_worst_seconds,
        "stopped": len(status.stopped),
        "refused": len(status.refused),
        "waiting": len(status.waiting),
        "open_transaction_seconds": status.open_transaction_seconds,
        "groups": look.groups,
        "groups_skipped": len(status.skipped_groups),
        "last_verify": _verify(look.last_verify),
        "last_drill": _drill(look.last_drill),
    }


def _verify(last: VerifyStatus | None) -> dict[str, Any] | None:
    if last is None:
        return None
    return {"at_ms": int(last.at * 1000), "ok": last.ok, "records": last.records}


def _drill(last: DrillStatus | None) -> dict[str, Any] | None:
    if last is None:
        return None
    return {
        "at_ms": int(last.at * 1000),
        "ok": last.ok,
        "rpo_seconds": last.rpo_seconds,
        "rto_seconds": last.rto_seconds,
    }
