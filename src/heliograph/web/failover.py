"""Fail-over from the page: the plan as anybody may see it, carried out for who may, with its progress."""

import logging
import threading
import time
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, FastAPI, Request
from pydantic import BaseModel, ConfigDict

from heliograph.config.flow import FlowConfig
from heliograph.control.connect import RestError
from heliograph.errors import MirrorError
from heliograph.recovery.failover import FailoverPlan, carry_out, plan_failover
from heliograph.recovery.failover_json import failover_json
from heliograph.web.access import who_asks
from heliograph.web.looking import FAULTS, LOOKS
from heliograph.web.mirror import TheFlows, config_of

log = logging.getLogger(__name__)

router = APIRouter(prefix="/api/failover", tags=["fail-over"])


class Stage(StrEnum):
    NONE = "none"
    PLANNING = "planning"
    MOVING = "moving"
    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a fail-over has come; `error` is why it ended before its time."""

    state: Stage = Stage.NONE
    started_ms: int | None = None
    group: str | None = None
    number: int = 0
    total: int = 0
    error: str | None = None
    objections: tuple[dict[str, Any], ...] = ()
    report: dict[str, Any] | None = None

    @property
    def under_way(self) -> bool:
        return self.state in (Stage.PLANNING, Stage.MOVING)


class Order(BaseModel):
    """What somebody wants: `confirm` is the target's name, typed by hand."""

    model_config = ConfigDict(extra="forbid", strict=True)

    confirm: str
    groups: str | None = None
    keep_flow: bool = False
    force: bool = False


class Failovers:
    """The fail-overs of this process, at most one at a time for each flow."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._progress: dict[str, Progress] = {}

    def progress(self, flow: str) -> Progress:
        return self._progress.get(flow, Progress())

    def begin(self, config: FlowConfig, order: Order) -> None:
        """Start in the background; RestError 409 if one is under way."""
        flow = str(config.flow)
        with self._lock:
            if self.progress(flow).under_way:
                raise RestError(409, f"a fail-over of {flow} is under way. Wait for its end.")
            self._progress[flow] = Progress(Stage.PLANNING, time.time_ns() // 1_000_000)
        threading.Thread(
            target=self._carry_out, args=(config, order), name=f"fail-over {flow}", daemon=True
        ).start()

    def _carry_out(self, config: FlowConfig, order: Order) -> None:
        flow = str(config.flow)
        try:
            self._progress[flow] = self._work(config, order)
        except MirrorError as exc:
            log.error("fail-over of %s FAILED: %s", flow, exc)  # noqa: TRY400 - a sentence, no trace
            self._fail(flow, str(exc))
        except Exception as exc:  # the edge of a thread: whoever waits must hear of it
            log.exception("fail-over of %s", flow)
            self._fail(flow, f"{type(exc).__name__}: {exc}")

    def _fail(self, flow: str, error: str) -> None:
        self._progress[flow] = replace(self.progress(flow), state=Stage.FAILED, error=error)

    def _work(self, config: FlowConfig, order: Order) -> Progress:
        flow = str(config.flow)
        plan = plan_failover(config, order.groups, keeps_flow=order.keep_flow)
        begun = self.progress(flow)
        if any(not (order.force and o.forcible) for o in plan.objections):
            log.warning("fail-over of %s was refused", flow)
            return replace(begun, state=Stage.REFUSED, objections=_objections(plan))
        moving = replace(begun, state=Stage.MOVING, total=len(plan.moves))
        self._progress[flow] = moving

        def show(group: str, number: int, total: int) -> None:
            self._progress[flow] = replace(moving, group=group, number=number, total=total)

        report = carry_out(plan, show)
        log.warning("fail-over of %s is done: %d groups moved", flow, len(report.moved))
        told = {
            "moved": dict(report.moved),
            "left": dict(report.left),
            "held": report.held,
            "seconds": round(report.seconds, 3),
        }
        return replace(moving, state=Stage.DONE, number=moving.total, report=told)


def mount(app: FastAPI) -> None:
    """Serve fail-overs."""
    app.state.failovers = Failovers()
    app.include_router(router)


async def _failovers(request: Request) -> Failovers:
    return cast(Failovers, request.app.state.failovers)


TheFailovers = Annotated[Failovers, Depends(_failovers)]


@router.get("/{flow}", responses=FAULTS, dependencies=LOOKS)
def get_plan(
    known: TheFlows, flow: str, groups: str | None = None, keep_flow: bool = False
) -> dict[str, Any]:
    """Look at both clusters, and return what a fail-over would do and what speaks against it."""
    config = config_of(known, flow)
    plan = plan_failover(config, groups, keeps_flow=keep_flow)
    return {
        **failover_json(plan),
        "objections": _objections(plan),
        "confirm": config.flow.target,
        "done": plan.done,
    }


@router.post("/{flow}", status_code=202)
def begin(
    request: Request, known: TheFlows, failovers: TheFailovers, flow: str, order: Order
) -> dict[str, Any]:
    """Plan again and carry it out, unless something speaks against it; `progress` tells of it."""
    config = config_of(known, flow)
    if order.confirm != config.flow.target:
        raise RestError(400, f"type {config.flow.target} to confirm; {order.confirm!r} is not it.")
    entry = who_asks(request.scope)
    failovers.begin(config, order)
    log.warning("fail-over of %s was asked for by %s", flow, entry.name if entry else "the page")
    return get_progress(known, failovers, flow)


@router.get("/{flow}/progress")
def get_progress(known: TheFlows, failovers: TheFailovers, flow: str) -> dict[str, Any]:
    """Return how far the fail-over of this flow has come that was last asked for."""
    config_of(known, flow)
    return asdict(failovers.progress(flow))


def _objections(plan: FailoverPlan) -> tuple[dict[str, Any], ...]:
    return tuple({"sentence": o.sentence, "forcible": o.forcible} for o in plan.objections)
