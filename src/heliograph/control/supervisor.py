"""All flows of one driver: a runner each, one Spark session, one place where leases are granted."""

import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from heliograph.config.flow import FlowConfig
from heliograph.control.runner import FlowRunner, FlowStatus, slices_for
from heliograph.dataplane.lease_server import LeaseServer
from heliograph.dataplane.session import Engine
from heliograph.flows.upkeep import GroupUpkeep, HeartbeatUpkeep

log = logging.getLogger(__name__)

_PATIENCE = 12.0


class Supervisor:
    """Starts and stops flows together; between the two, each goes its own way."""

    def __init__(self, flows: Sequence[FlowConfig], beating: Sequence[FlowConfig] = ()) -> None:
        """Take the flows to run, and those that are not run but beat all the same."""
        slots = sum(slices_for(config) for config in flows)
        spark = {key: value for config in flows for key, value in config.spark.items()}
        self.engine = Engine(slots, spark)
        self._leases = LeaseServer(spark)
        self._runners = [FlowRunner(config, self.engine, self._leases) for config in flows]
        self._groups = {str(config.flow): GroupUpkeep(config) for config in flows}
        self._hearts = {str(c.flow): HeartbeatUpkeep(c) for c in (*flows, *beating)}

    def start(self) -> None:
        """Start every flow. Spark comes up meanwhile: it takes longer than finding the topics."""
        self.engine.start()
        for runner in self._runners:
            runner.start()
        for upkeep in (*self._groups.values(), *self._hearts.values()):
            upkeep.start()

    def status(self) -> list[FlowStatus]:
        return [self._complete(runner.status()) for runner in self._runners]

    def alive(self) -> bool:
        """Whether this driver can still do its work."""
        return self.engine.alive()

    def stop_flows(self) -> None:
        """Drain and save every flow; Spark stays up."""
        for upkeep in (*self._groups.values(), *self._hearts.values()):
            upkeep.stop()
        for runner in self._runners:
            runner.stop()
        deadline = time.monotonic() + _PATIENCE
        for runner in self._runners:
            runner.join(max(deadline - time.monotonic(), 0.0))
            if runner.is_alive():
                log.warning(
                    "flow=%s does not end, probably because a cluster does not answer; it is left behind. "
                    "Nothing is lost: the next start finds out from the target.",
                    runner.name,
                )

    def _complete(self, status: FlowStatus) -> FlowStatus:
        """Add what is done for a flow beside its runner."""
        groups, heart = self._groups[status.flow], self._hearts[status.flow]
        return replace(
            status,
            chores=(*status.chores, *groups.status(), *heart.status()),
            skipped_groups=groups.skipped_groups,
        )

    def stop(self) -> None:
        """Drain and save every flow, then stop Spark."""
        self.stop_flows()
        self._leases.close()
        self.engine.close()
