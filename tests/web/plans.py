"""Plans of a fail-over for tests that look at no cluster."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from heliograph.config.flow import FlowConfig
from heliograph.failover.facts import FlowView, GroupsView, SourceView
from heliograph.failover.failover import FailoverPlan, FailoverReport, Objection, OnGroup
from heliograph.failover.moves import GroupMove, Place, Stand, Step
from heliograph.model import TopicPartition
from heliograph.web.app import make_app
from heliograph.web.failover import Failovers
from heliograph.web.server import Server
from heliograph.wire.hold_records import Hold
from tests.web.flows import Known


def make_plan(
    config: FlowConfig,
    *objections: Objection,
    answers: bool = True,
    held: bool = False,
    groups: tuple[str, ...] = ("billing", "shipping"),
) -> FailoverPlan:
    """Return a plan that moves one partition of each group."""
    here, there = TopicPartition("orders", 0), TopicPartition("A.orders", 0)
    moves = [GroupMove(name, (Step(Stand(here, 7), Place(there, 5)),)) for name in groups]
    view = FlowView(
        config=config,
        now_ms=0,
        source=SourceView({}, {}, {}, GroupsView(), {}) if answers else None,
        gone=None if answers else "gone",
        runs={},
        saved={},
        ends={},
        checkpoints={},
        heartbeat=None,
        groups=GroupsView(),
        hold=Hold(str(config.flow), 1) if held else None,
    )
    return FailoverPlan(view, tuple(moves), {}, objections, keeps_flow=False)


@dataclass
class Scene:
    """Fail-overs that plan as they are told to, and move groups when they may."""

    config: FlowConfig
    objections: list[Objection] = field(default_factory=list)
    answers: bool = True
    held: bool = False
    error: Exception | None = None
    planned: list[tuple[frozenset[str] | None, bool]] = field(default_factory=list)
    may_plan: threading.Event = field(default_factory=threading.Event)
    may_move: threading.Event = field(default_factory=threading.Event)
    carried_out: int = 0

    def __post_init__(self) -> None:
        self.may_plan.set()
        self.may_move.set()

    def plan(
        self,
        config: FlowConfig,
        groups: frozenset[str] | None = None,
        *,
        keeps_flow: bool,
        **_: Any,
    ) -> FailoverPlan:
        self.planned.append((groups, keeps_flow))
        assert self.may_plan.wait(30)
        if self.error is not None:
            raise self.error
        return make_plan(config, *self.objections, answers=self.answers, held=self.held)

    def carry_out(self, plan: FailoverPlan, on_group: OnGroup) -> FailoverReport:
        for number, move in enumerate(plan.moves, 1):
            assert self.may_move.wait(30)
            on_group(move.group, number, len(plan.moves))
        self.carried_out += 1
        flow = str(plan.view.config.flow)
        return FailoverReport(flow, {move.group: 1 for move in plan.moves}, {}, True, 0.5)


@contextmanager
def serve(scene: Scene) -> Iterator[Server]:
    """Serve the page of a process that has the scene's flow."""
    app = make_app(Known(configs=[scene.config]))
    app.state.failovers = Failovers(scene.plan, scene.carry_out)
    server = Server(app)
    server.start()
    try:
        yield server
    finally:
        scene.may_plan.set()
        scene.may_move.set()
        server.stop()
