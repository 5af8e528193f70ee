from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from heliograph.config.flow import FlowConfig
from heliograph.errors import ClusterUnreachable
from heliograph.observe.flow_status import FlowStatus, State, status_at_rest
from heliograph.observe.health import LATE, Health, judge, unreachable

REST = status_at_rest(cast(FlowConfig, SimpleNamespace(flow="A->B")))
RUNS = replace(REST, state=State.RUNNING, lag=0)


@pytest.mark.parametrize(
    ("flow", "lag_seconds", "health", "says"),
    [
        (RUNS, 0.0, Health.GOOD, None),
        (RUNS, LATE + 1, Health.WARNING, "waiting for 61 s"),
        (replace(RUNS, waiting=("A is away",)), 0.0, Health.BAD, "A is away"),
        (replace(RUNS, waiting=("a", "t"), open_transactions=("t",)), 0.0, Health.BAD, "a"),
        (replace(RUNS, waiting=("t",), open_transactions=("t",)), 0.0, Health.WARNING, "t"),
        (replace(RUNS, stopped={"t-0": "lost"}), 0.0, Health.BAD, "t-0 is stopped: lost"),
        (replace(RUNS, reason="no ACLs"), 0.0, Health.WARNING, "no ACLs"),
        (replace(RUNS, refused=("t: too long",)), 0.0, Health.WARNING, "t: too long"),
        (replace(REST, state=State.FAILED, reason="why"), None, Health.BAD, "why"),
        (replace(REST, state=State.PAUSED), None, Health.OFF, None),
        (replace(REST, state=State.STARTING), None, Health.WARNING, None),
    ],
)
def test_a_flow_is_as_its_worst_part(
    flow: FlowStatus, lag_seconds: float | None, health: Health, says: str | None
) -> None:
    found, reason = judge(flow, lag_seconds)
    assert found is health
    assert says in reason if says and reason else reason == says


def test_a_cluster_that_does_not_answer_is_known_by_what_flows_say() -> None:
    sentence = str(ClusterUnreachable("A", "a:9092", "refused"))
    for flow in (replace(RUNS, waiting=(sentence,)), replace(REST, reason=sentence)):
        assert unreachable("A", [RUNS, flow]) == sentence
        assert unreachable("B", [RUNS, flow]) is None
