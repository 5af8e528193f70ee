"""The health of a flow, in one word for a map, a table and an alert."""

from collections.abc import Iterable, Iterator
from enum import StrEnum

from heliograph.errors import ClusterUnreachable
from heliograph.observe.flow_status import FlowStatus, State

LATE = 60.0
"""Seconds of lag above which a flow is not healthy."""


class Health(StrEnum):
    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"
    OFF = "off"


_AT_REST = {
    State.STARTING: Health.WARNING,
    State.FAILED: Health.BAD,
    State.PAUSED: Health.OFF,
    State.STOPPED: Health.OFF,
}


def judge(flow: FlowStatus, lag_seconds: float | None) -> tuple[Health, str | None]:
    """Return the health of a flow, and the first thing to know if it is not good."""
    if flow.state is not State.RUNNING:
        return _AT_REST[flow.state], flow.reason
    for health, sentence in _complaints(flow, lag_seconds):
        return health, sentence
    return Health.GOOD, None


def _complaints(flow: FlowStatus, lag_seconds: float | None) -> Iterator[tuple[Health, str]]:
    """Yield what is wrong with a running flow, the worst first."""
    for sentence in flow.waiting:
        if sentence not in flow.open_transactions:
            yield Health.BAD, sentence
    for partition, why in flow.stopped.items():
        yield Health.BAD, f"{partition} is stopped: {why}"
    for sentence in flow.open_transactions:
        yield Health.WARNING, sentence
    if flow.reason:
        yield Health.WARNING, flow.reason
    for sentence in flow.refused:
        yield Health.WARNING, sentence
    if lag_seconds is not None and lag_seconds > LATE:
        yield (
            Health.WARNING,
            f"the oldest record not yet copied has been waiting for {lag_seconds:.0f} s",
        )


def unreachable(alias: str, flows: Iterable[FlowStatus]) -> str | None:
    """Return why nothing comes from or goes to a cluster, if flows report that it does not answer."""
    begins = ClusterUnreachable.words(alias)
    for flow in flows:
        for sentence in (*flow.waiting, flow.reason or ""):
            if sentence.startswith(begins):
                return sentence
    return None
