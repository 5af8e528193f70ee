"""The state of a flow and the reason for it, as its runner reports them.

A runner hides no failure: the state is FAILED, with the reason, from the moment a failure is known until the flow
copies again.
"""

import logging
import time
from datetime import timedelta

from heliograph.driving.job import FlowJob
from heliograph.model import Flow
from heliograph.observe.flow_status import State

log = logging.getLogger(__name__)

_TROUBLE = timedelta(seconds=3)


class Standing:
    """One flow's state. Changed by the flow's thread; `lose` is called from others, too."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._troubled_since: float | None = None
        self.state = State.STARTING
        self.reason: str | None = None
        self.lost: str | None = (
            None  # why this driver must not continue; a retry would only repeat it
        )

    def run(self) -> None:
        self.state, self.reason = State.RUNNING, None

    def stop(self) -> None:
        self.state = State.STOPPED

    def hold(self, reason: str) -> None:
        """Wait until the flow, which was failed over, may continue."""
        if reason != self.reason:
            log.warning("flow=%s PAUSED: %s", self._flow, reason)
        self.state, self.reason, self.lost = State.PAUSED, reason, None

    def fail(self, reason: str) -> None:
        self.state = State.FAILED
        if reason != self.reason:
            log.error("flow=%s FAILED: %s", self._flow, reason)
        self.reason = reason

    def lose(self, kind: str, reason: str) -> None:
        """Record that another driver has the flow, or that it is held."""
        if self.lost is None and kind != "held":
            log.error("flow=%s is fenced: %s", self._flow, reason)
        self.lost = reason

    def note_troubles(self, job: FlowJob, now: float | None = None) -> None:
        """Set the state to FAILED while tasks have been waiting for a cluster for some seconds."""
        now = time.monotonic() if now is None else now
        troubles = job.troubles()
        if not troubles:
            self._troubled_since = None
            self.run()
        elif self._troubled_since is None:
            self._troubled_since = now
        elif now - self._troubled_since > _TROUBLE.total_seconds():
            self.state, self.reason = State.FAILED, troubles[0]
