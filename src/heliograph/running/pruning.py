"""What a run map may forget: records that the source no longer has, and topics that are gone."""

import logging

from heliograph.driving.job import FlowJob
from heliograph.errors import MirrorError
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.offsets import EARLIEST, find_offsets
from heliograph.model import Flow
from heliograph.saved.runs import RunStore

log = logging.getLogger(__name__)


class Pruning:
    """The pruning of one flow's runs, at each refresh."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._missed: set[str] = set()  # topics that were not on the source the last time

    def prune(self, job: FlowJob, runs: RunStore, source: Cluster) -> None:
        """Forget what the source no longer has; a topic, when it was missed twice."""
        held = {p.source for p in job.partitions()}
        long_ones = [p for p in runs.long_ones() if p in held]
        gone = runs.topics_known() - {p.topic for p in held}
        try:
            if long_ones:
                runs.prune(find_offsets(source, long_ones, EARLIEST).found)
            if gone:
                # Asked by name: a topic that we may not see is an error, and not gone.
                gone -= source.describe(gone).keys()
            runs.drop(gone & self._missed)
            self._missed = gone
        except MirrorError as exc:
            # Pruning only saves space, and is retried at the next refresh.
            log.warning("flow=%s old runs could not be pruned: %s", self._flow, exc)
