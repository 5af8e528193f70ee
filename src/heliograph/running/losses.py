"""What happens to a partition whose source or target lost records: `on.loss` decides."""

import logging

from heliograph.config.flow import FlowConfig
from heliograph.driving.job import FlowJob
from heliograph.driving.tally import Tally
from heliograph.errors import MirrorError
from heliograph.flows.starts import explain_loss
from heliograph.kafka.cluster import Cluster
from heliograph.model import StopKind

log = logging.getLogger(__name__)


def look_into_losses(config: FlowConfig, job: FlowJob, source: Cluster, tally: Tally) -> None:
    """Find out why partitions are out of their source's range, and resume those that may continue."""
    for partition in job.stopped():
        stop = partition.stop
        if stop is None or stop.kind is not StopKind.OUT_OF_RANGE:
            continue
        try:
            loss = explain_loss(source, partition.source, stop.upstream, stop.resume)
        except MirrorError as exc:
            log.warning(
                "flow=%s partition=%s a loss could not be explained: %s",
                config.flow,
                partition.source,
                exc,
            )
            continue
        if loss is None:
            job.reposition(partition.source, stop.upstream)
        elif not config.copying.goes_on_after_loss:
            advice = f"{loss.reason}; set on.loss=continue to go on at {loss.resume}"
            job.explain_stop(partition.source, StopKind.LOSS, advice)
        else:
            job.reposition(partition.source, loss.resume)
            tally.losses[StopKind.LOSS.value] += 1
            log.error(
                "flow=%s partition=%s LOSS: %s. on.loss=continue: it goes on at %d.",
                config.flow,
                partition.source,
                loss.reason,
                loss.resume,
            )


def raise_alarms(job: FlowJob, tally: Tally) -> None:
    """Count partitions that stopped for a loss; one that stops there again is the same alarm."""
    for partition in job.stopped():
        stop = partition.stop
        if stop is not None and stop.kind.is_loss:
            about = partition.topic_id, partition.remote_id, stop.upstream
            tally.alarm(partition.source, stop.kind.value, about)
