"""Partitions as a job receives them, and their positions as they are saved."""

import logging
import time

from heliograph.driving.job import FlowJob
from heliograph.driving.partitions import Partition, Stop
from heliograph.errors import MirrorError
from heliograph.flows.starts import Origin, Start, saved_offset
from heliograph.kafka.cluster import NO_LEADER, Cluster
from heliograph.model import StopKind, TopicPartition
from heliograph.wire.connect_records import SourceOffset

log = logging.getLogger(__name__)

_SETTLES = 3.0  # seconds after which a missing topic is checked again


def open_partition(start: Start, *, made: bool = False) -> Partition:
    """Return the state in which a job begins with a partition; a remote topic that we `made` has no records yet."""
    route = start.route
    stop = None
    if start.barred:
        reason = f"{start.loss}; {start.advice}"
        untracked = start.origin is Origin.UNTRACKED
        kind = StopKind.UNTRACKED if untracked else StopKind.MADE_ANEW
        stop = Stop(kind, start.position.upstream, reason, time.monotonic())
        log.error("partition=%s stopped: %s", route.source, reason)
    return Partition(
        source=route.source,
        topic_id=route.topic_id,
        remote=route.remote,
        remote_id=route.remote_id,
        max_message_bytes=route.max_message_bytes,
        position=start.position,
        read_to=(start.position.upstream, start.leader_epoch),
        stop=stop,
        spread=route.spread,
        made=made,
        min_in_sync=route.min_in_sync,
    )


def resume_returned(job: FlowJob, source: Cluster, target: Cluster) -> None:
    """Resume partitions that had no leader, or that a broker did not know, and that are available again.

    Else they would wait for a minute: a cluster that comes back has its brokers before it has its leaders.
    """
    now = time.monotonic()
    for kind, cluster in ((StopKind.LOST_TOPIC, source), (StopKind.LOST_REMOTE, target)):
        away = {
            p: (p.remote, p.remote_id) if kind is StopKind.LOST_REMOTE else (p.source, p.topic_id)
            for p in job.stopped()
            if p.stop is not None and p.stop.kind is kind and now - p.stop.since > _SETTLES
        }
        if not away:
            continue
        try:
            topics = cluster.describe_each({place.topic for place, _ in away.values()}).found
        except MirrorError:
            continue  # it is asked again
        for partition, (place, topic_id) in away.items():
            topic, stop = topics.get(place.topic), partition.stop
            if topic is None or stop is None or str(topic.topic_id) != topic_id:
                continue
            if place.index < len(topic.leaders) and NO_LEADER not in topic.leaders:
                job.reposition(partition.source, stop.upstream)


def offsets_of(job: FlowJob) -> dict[TopicPartition, SourceOffset]:
    """Return the offsets to save: none for a partition that waits for a person, whose old record stays."""
    return {
        p.source: saved_offset(p.position, p.topic_id, p.remote_id, p.leader_epoch)
        for p in job.partitions()
        if p.stop is None or not p.stop.kind.keeps_saved_position
    }
