"""Partitions as a job is given them, and their positions as they are saved."""

import logging
import time

from heliograph.dataplane.job import FlowJob
from heliograph.dataplane.partitions import MADE_ANEW, UNTRACKED, Partition, Stop
from heliograph.flows.starts import Origin, Start, saved_offset
from heliograph.model import TopicPartition
from heliograph.wire.connect_records import SourceOffset

log = logging.getLogger(__name__)


def open_partition(start: Start) -> Partition:
    """Return the state in which a job begins with a partition."""
    route = start.route
    stop = None
    if start.barred:
        reason = f"{start.loss}; {start.advice}"
        kind = UNTRACKED if start.origin is Origin.UNTRACKED else MADE_ANEW
        stop = Stop(kind, start.position.upstream, reason, time.monotonic())
        log.error("partition=%s stopped: %s", route.source, reason)
    return Partition(
        source=route.source,
        topic_id=route.topic_id,
        remote=route.remote,
        remote_id=route.remote_id,
        max_message_bytes=route.max_message_bytes,
        position=start.position,
        stop=stop,
        spread=route.spread,
    )


def offsets_of(job: FlowJob) -> dict[TopicPartition, SourceOffset]:
    """Return what is to be saved: nothing of what waits for a person, whose old record stays."""
    return {
        p.source: saved_offset(p.position, p.topic_id, p.remote_id)
        for p in job.partitions()
        if p.stop is None or p.stop.kind not in (MADE_ANEW, UNTRACKED)
    }
