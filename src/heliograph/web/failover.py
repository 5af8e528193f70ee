"""Fail-over from the page: the plan, which anybody may see, its execution by users who may, and its progress.

An order says what its sender was shown. It is planned again, and refused if something else speaks against it
now: an objection that was not seen cannot be overridden.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Final, cast

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from heliograph.config.access import Role
from heliograph.config.flow import FlowConfig
from heliograph.connect.herder import RestError
from heliograph.errors import MirrorError
from heliograph.failover.documents import failover_json, report_json
from heliograph.failover.failover import (
    FailoverPlan,
    FailoverReport,
    Objection,
    Refused,
    carry_out,
    plan_failover,
)
from heliograph.web.access import who_asks
from heliograph.web.inquiries import Inquiries
from heliograph.web.looking import FAULTS, as_a_gateway
from heliograph.web.mirror import TheFlows, config_of

log = logging.getLogger(__name__)

router = APIRouter(prefix="/api/failover", tags=["fail-over"])

_LOOKING: Final = timedelta(seconds=20)
_PLAN_KEPT: Final = timedelta(seconds=3)
_AT_ONCE: Final = 8
_MORE_FOR_WHO_MAY: Final = 8
_ENDING: Final = timedelta(seconds=30)

Plans = Callable[..., FailoverPlan]
CarriesOut = Callable[..., FailoverReport]


class Stage(StrEnum):
    NONE = "none"
    PLANNING = "planning"
    MOVING = "moving"
    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a fail-over; `error` is why it ended early."""

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


class SeenObjection(BaseModel):
    """What spoke against it, by what it is about."""

    model_config = ConfigDict(extra="ignore", strict=True)

    kind: str
    groups: frozenset[str] = Field(frozenset(), strict=False)


class Seen(BaseModel):
    """What the plan said that was shown."""

    model_config = ConfigDict(extra="forbid", strict=True)

    objections: list[SeenObjection]
    source_answers: bool
    held: bool


class Order(BaseModel):
    """What somebody wants: `confirm` is the target's name, typed by hand; `groups` are names, null for all."""

    model_config = ConfigDict(extra="forbid", strict=True)

    confirm: str
    groups: Annotated[list[str], Field(min_length=1)] | None = None
    keep_flow: bool = False
    force: bool = False
    seen: Seen | None = None


class Failovers:
    """The fail-overs of this process, at most one at a time for each flow; and plans, which viewers share."""

    def __init__(self, plan: Plans = plan_failover, carry_out: CarriesOut = carry_out) -> None:
        self.plan = plan
        self.plans = Inquiries[bytes]()
        self._act = carry_out
        self._lock = threading.Lock()
        self._progress: dict[str, Progress] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._closed = False

    def progress(self, flow: str) -> Progress:
        return self._progress.get(flow, Progress())

    def begin(self, config: FlowConfig, order: Order) -> None:
        """Start in the background; RestError 409 if one is in progress, 503 if this process is about to end."""
        flow = str(config.flow)
        thread = threading.Thread(
            target=self._carry_out, args=(config, order), name=f"fail-over {flow}", daemon=True
        )
        with self._lock:
            if self._closed:
                raise RestError(503, "heliograph is stopping. Use the command heliograph failover.")
            before = self.progress(flow)
            if before.under_way:
                raise RestError(409, f"a fail-over of {flow} is under way. Wait for its end.")
            self._progress[flow] = Progress(Stage.PLANNING, time.time_ns() // 1_000_000)
            try:
                thread.start()
            except BaseException:
                self._progress[flow] = before
                raise
            self._threads[flow] = thread

    def close(self, within: timedelta = _ENDING) -> None:
        """Begin no more, and wait for those in progress: half a fail-over would have to be done again."""
        with self._lock:
            self._closed = True
            threads = dict(self._threads)
        deadline = time.monotonic() + within.total_seconds()
        for flow, thread in threads.items():
            thread.join(max(deadline - time.monotonic(), 0))
            if thread.is_alive():
                log.error(
                    "fail-over of %s is cut off. Do it again: it finishes what is left.", flow
                )

    def _carry_out(self, config: FlowConfig, order: Order) -> None:
        flow = str(config.flow)
        try:
            self._progress[flow] = self._work(config, order)
        except MirrorError as exc:
            log.error("fail-over of %s FAILED: %s", flow, exc)  # noqa: TRY400 - a sentence, no trace
            self._fail(flow, str(exc))
        except Exception as exc:  # the edge of a thread: users who wait must see the error
            log.exception("fail-over of %s", flow)
            self._fail(flow, f"{type(exc).__name__}: {exc}")

    def _fail(self, flow: str, error: str) -> None:
        self._progress[flow] = replace(self.progress(flow), state=Stage.FAILED, error=error)

    def _work(self, config: FlowConfig, order: Order) -> Progress:
        flow = str(config.flow)
        groups = None if order.groups is None else frozenset(order.groups)
        plan = self.plan(config, groups, keeps_flow=order.keep_flow)
        begun = self.progress(flow)
        if refused := tuple(find_refusals(plan, order)):
            log.warning("fail-over of %s was refused", flow)
            return replace(begun, state=Stage.REFUSED, objections=_shown(refused))
        moving = replace(begun, state=Stage.MOVING, total=len(plan.moves))
        self._progress[flow] = moving

        def show(group: str, number: int, total: int) -> None:
            self._progress[flow] = replace(moving, group=group, number=number, total=total)

        report = self._act(plan, show)
        log.warning("fail-over of %s is done: %d groups moved", flow, len(report.moved))
        done = report_json(report)
        return replace(moving, state=Stage.DONE, number=moving.total, report=done)


def find_refusals(plan: FailoverPlan, order: Order) -> Iterator[Objection]:
    """Yield why an order is not carried out: objections that cannot be overridden, were not, or were not seen."""
    flow, seen = plan.view.config.flow, order.seen
    if seen is not None and seen.source_answers and plan.view.source is None:
        yield Objection(
            f"{flow.source} answered when this was planned, and does not now: groups would go on from their "
            "checkpoints. Check again.",
            forcible=False,
        )
    if seen is not None and seen.held != (plan.view.hold is not None):
        meanwhile = "let go" if seen.held else "held"
        yield Objection(
            f"{flow} was {meanwhile} since this was planned. Check again.", forcible=False
        )
    for objection in plan.objections:
        if not (order.force and objection.forcible and _was_seen(objection, seen)):
            yield objection


def _was_seen(objection: Objection, seen: Seen | None) -> bool:
    alike = [its.groups for its in seen.objections if its.kind == objection.kind] if seen else []
    if not objection.groups:
        return bool(alike)
    return frozenset(objection.groups) <= frozenset().union(*alike)


def mount(app: FastAPI) -> None:
    """Serve fail-overs."""
    app.state.failovers = Failovers()
    app.include_router(router)


async def _failovers(request: Request) -> Failovers:
    return cast(Failovers, request.app.state.failovers)


TheFailovers = Annotated[Failovers, Depends(_failovers)]


@router.get("/{flow}", responses=FAULTS, response_class=JSONResponse)
async def get_plan(
    request: Request,
    known: TheFlows,
    failovers: TheFailovers,
    flow: str,
    *,
    keep_flow: bool = False,
) -> Response:
    """Look at both clusters, and return what a fail-over would do and what speaks against it; kept for 3 s."""
    config = await run_in_threadpool(config_of, known, flow)

    def find() -> bytes:
        try:
            with as_a_gateway():
                plan = failovers.plan(config, keeps_flow=keep_flow, within=_LOOKING)
        except Refused as exc:
            raise RestError(409, str(exc)) from exc
        told = {
            **failover_json(plan),
            "objections": _shown(plan.objections),
            "confirm": config.flow.target,
            "done": plan.done,
        }
        return json.dumps(told).encode()

    entry = who_asks(request.scope)
    may = entry is None or entry.role >= Role.FAILOVER
    body = await failovers.plans.ask(
        (flow, keep_flow, id(config)),
        find,
        _LOOKING,
        most=_AT_ONCE + (_MORE_FOR_WHO_MAY if may else 0),
        keep=lambda _: _PLAN_KEPT,
    )
    return Response(body, media_type="application/json")


@router.post("/{flow}", status_code=202)
def begin(
    request: Request, known: TheFlows, failovers: TheFailovers, flow: str, order: Order
) -> dict[str, Any]:
    """Plan again and carry it out, unless something speaks against it; `progress` tells of it."""
    config = config_of(known, flow)
    if order.confirm != config.flow.target:
        raise RestError(400, f"type {config.flow.target} to confirm; {order.confirm!r} is not it.")
    if order.force and order.seen is None:
        raise RestError(
            400, "force overrides what was seen: say what in seen, as the plan told it."
        )
    entry = who_asks(request.scope)
    failovers.begin(config, order)
    log.warning("fail-over of %s was asked for by %s", flow, entry.name if entry else "the page")
    return get_progress(known, failovers, flow)


@router.get("/{flow}/progress")
def get_progress(known: TheFlows, failovers: TheFailovers, flow: str) -> dict[str, Any]:
    """Return how far the fail-over of this flow has come that was last asked for."""
    config_of(known, flow)
    return asdict(failovers.progress(flow))


def _shown(objections: tuple[Objection, ...]) -> tuple[dict[str, Any], ...]:
    return tuple(asdict(objection) for objection in objections)
