"""One flow kept going: connect, discover, copy, save, and again after a failure.

A runner never pretends: its state is FAILED, with the reason, from the moment a failure is known
until the flow copies again.
"""

import logging
import os
import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from heliograph.config.flow import FlowConfig
from heliograph.dataplane.assignment import Limits
from heliograph.dataplane.job import FlowJob, JobOptions
from heliograph.dataplane.lease_server import LeaseServer
from heliograph.dataplane.partitions import Partition, Stop
from heliograph.dataplane.session import Engine
from heliograph.errors import MirrorError
from heliograph.flows.progress import ProgressStore
from heliograph.flows.source import Start, explain_loss, plan_starts, refresh_topics
from heliograph.kafka.cluster import Cluster
from heliograph.model import TopicPartition
from heliograph.wire.connect_records import SourceOffset

log = logging.getLogger(__name__)

_TICK = 0.25
_FIRST_BACKOFF = timedelta(seconds=1)
_LONGEST_BACKOFF = timedelta(seconds=60)
_DRAIN = timedelta(seconds=8)
_SAVE = timedelta(seconds=3)
_LAST_SAVE = timedelta(seconds=2)
_TROUBLE = timedelta(seconds=3)


class State(Enum):
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """A flow as it is now, for logs, tables and pages."""

    flow: str
    state: State
    reason: str | None
    topics: int
    partitions: int
    records: int
    bytes: int
    lag: int
    epochs: int
    latency_ms: tuple[int | None, int | None]
    verdicts: dict[str, int]
    stopped: tuple[str, ...]
    waiting: tuple[str, ...]


def slices_for(config: FlowConfig) -> int:
    """Return how many tasks a flow gets: more than there are cores only helps on a real cluster."""
    if config.spark.get("spark.master", "local").startswith("local"):
        return min(config.tasks_max, os.cpu_count() or 1)
    return config.tasks_max


class FlowRunner(threading.Thread):
    """The thread that runs one flow until it is told to stop."""

    def __init__(self, config: FlowConfig, engine: Engine, leases: LeaseServer) -> None:
        super().__init__(name=str(config.flow), daemon=True)
        self._config = config
        self._engine = engine
        self._leases = leases
        self._stopping = threading.Event()
        self._fatal: str | None = None
        self._state = State.STARTING
        self._reason: str | None = None
        self._refused: tuple[str, ...] = ()
        self._job: FlowJob | None = None
        self._troubled_since: float | None = None
        self._known: dict[TopicPartition, SourceOffset] = {}

    def run(self) -> None:
        """Work until stopped, with a growing pause after each failure. The supervisor's thread target."""
        backoff = _FIRST_BACKOFF
        while not self._stopping.is_set():
            started = time.monotonic()
            try:
                self._work()
            except MirrorError as exc:
                self._failed(str(exc))
            except Exception as exc:
                log.exception("flow=%s failed unexpectedly", self._config.flow)
                self._failed(f"{type(exc).__name__}: {exc}")
            if self._fatal is not None:
                self._stopping.wait()
                break
            if time.monotonic() - started > _LONGEST_BACKOFF.total_seconds():
                backoff = _FIRST_BACKOFF
            self._stopping.wait(backoff.total_seconds())
            backoff = min(backoff * 2, _LONGEST_BACKOFF)
        if self._fatal is None:
            self._state = State.STOPPED

    def stop(self) -> None:
        """Ask the flow to drain, save and end; `join` waits for it."""
        self._stopping.set()

    def status(self) -> FlowStatus:
        job = self._job
        partitions = job.partitions() if job else []
        return FlowStatus(
            flow=str(self._config.flow),
            state=self._state,
            reason=self._reason,
            topics=len({p.source.topic for p in partitions}),
            partitions=len(partitions),
            records=sum(p.records for p in partitions),
            bytes=sum(p.bytes for p in partitions),
            lag=sum(p.lag for p in partitions),
            epochs=job.epochs if job else 0,
            latency_ms=(job.latency.quantile(0.5), job.latency.quantile(0.99))
            if job
            else (None, None),
            verdicts=dict(job.verdicts) if job else {},
            stopped=tuple(f"{p.source}: {p.stop.reason}" for p in partitions if p.stop)
            + self._refused,
            waiting=tuple(job.troubles()) if job else (),
        )

    def _work(self) -> None:
        source = Cluster(self._config.source_admin)
        target = Cluster(self._config.target_admin)
        try:
            for cluster in (source, target):
                cluster.describe(())  # an unreachable one is told at once, not after some patience
            store = ProgressStore(target, self._config)
            self._known = store.load()
            job = self._open_job()
            self._assign(job, store, source, target)
            while not self._engine.wait(_TICK):
                if self._stopping.is_set():
                    return
            job.start(self._engine)
            self._job = job
            try:
                self._state, self._reason = State.RUNNING, None
                self._tend(job, store, source, target)
            finally:
                drained = job.stop(_DRAIN)
                if self._fatal is None:  # else the positions are somebody else's now
                    self._save(job, store, _LAST_SAVE)
                if not drained:
                    log.warning(
                        "flow=%s stopped before all it had read was written. Nothing is lost: "
                        "the next start finds out from the target.",
                        self._config.flow,
                    )
        finally:
            source.close()
            target.close()

    def _tend(self, job: FlowJob, store: ProgressStore, source: Cluster, target: Cluster) -> None:
        """Look after a running job: save, refresh, and raise if it fails."""
        config = self._config
        save_every = config.offset_flush_interval.total_seconds()
        refresh_every = config.refresh_topics_interval.total_seconds()
        save_at = time.monotonic() + save_every
        refresh_at = time.monotonic() + refresh_every
        while not self._stopping.wait(_TICK):
            if self._fatal is not None:
                raise MirrorError(self._fatal)
            failure = job.failure()
            if failure is not None:
                raise MirrorError(f"{config.flow}: {failure}")
            self._look_into_losses(job, source)
            now = time.monotonic()
            self._note_troubles(job, now)
            if now >= save_at:
                self._save(job, store, _SAVE)
                save_at = now + save_every
            if config.refresh_topics_enabled and now >= refresh_at:
                self._refresh(job, store, source, target)
                refresh_at = now + refresh_every

    def _save(self, job: FlowJob, store: ProgressStore, within: timedelta) -> None:
        try:
            store.save(offsets_of(job), within)
        except MirrorError as exc:
            # Positions are only a shortcut to the target's tail; they are saved next time.
            log.warning("flow=%s progress could not be saved: %s", self._config.flow, exc)

    def _note_troubles(self, job: FlowJob, now: float) -> None:
        """Call the flow FAILED while its tasks have been waiting for a cluster for some seconds."""
        troubles = job.troubles()
        if not troubles:
            self._troubled_since = None
            self._state, self._reason = State.RUNNING, None
        elif self._troubled_since is None:
            self._troubled_since = now
        elif now - self._troubled_since > _TROUBLE.total_seconds():
            self._state, self._reason = State.FAILED, troubles[0]

    def _refresh(
        self, job: FlowJob, store: ProgressStore, source: Cluster, target: Cluster
    ) -> None:
        try:
            self._assign(job, store, source, target)
        except MirrorError as exc:
            # The copying goes on; what is new waits for the next refresh.
            log.warning("flow=%s topics could not be refreshed: %s", self._config.flow, exc)

    def _assign(
        self,
        job: FlowJob,
        store: ProgressStore,
        source: Cluster,
        target: Cluster,
    ) -> None:
        """Hand the job every partition there is; a new one only once its start is durable."""
        inventory = refresh_topics(self._config, source, target)
        for refusal in inventory.refused:
            if refusal not in self._refused:
                log.error("flow=%s %s", self._config.flow, refusal)
        self._refused = inventory.refused
        held = {(p.source, p.topic_id): p for p in job.partitions()}
        self._known.update(offsets_of(job))
        fresh = [r for r in inventory.routes if (r.source, r.topic_id) not in held]
        starts = plan_starts(self._config, fresh, self._known, source, target)
        store.save({start.route.source: start.offset for start in starts if not start.made_anew})
        begun = {start.route.source: start for start in starts}
        partitions = []
        for route in inventory.routes:
            start = begun.get(route.source)
            if start is None:
                start = Start(route, held[route.source, route.topic_id].position)
            partitions.append(open_partition(start))
        if job.assign(partitions):
            log.info(
                "flow=%s copies topics=%d partitions=%d",
                self._config.flow,
                len({route.source.topic for route in inventory.routes}),
                len(inventory.routes),
            )

    def _open_job(self) -> FlowJob:
        config = self._config
        options = JobOptions(
            flow=config.flow,
            source=config.source,
            target=config.target,
            transactional_id=f"heliograph-{config.connector_name}-{config.flow}",
            limits=Limits(
                epoch_seconds=config.epoch.total_seconds(),
                chunk_bytes=config.chunk_max_bytes,
                partition_bytes=config.partition_fetch_max_bytes,
                in_flight_requests=config.max_in_flight_requests,
                merge_bytes=config.merge_max_bytes,
                read_committed=config.isolation_level == "read_committed",
            ),
            slices=slices_for(config),
        )
        return FlowJob(options, self._leases, on_fatal=self._on_fatal)

    def _look_into_losses(self, job: FlowJob, source: Cluster) -> None:
        for partition in job.partitions():
            stop = partition.stop
            if stop is None or stop.kind != "out-of-range":
                continue
            try:
                loss = explain_loss(source, partition.source, stop.upstream)
            except MirrorError as exc:
                log.warning("flow=%s a loss could not be explained: %s", self._config.flow, exc)
                return
            if loss is None:
                job.reposition(partition.source, stop.upstream)
            elif self._config.on_loss != "continue":
                advice = f"{loss.reason}; set on.loss=continue to go on at {loss.resume}"
                job.explain_stop(partition.source, "loss", advice)
            elif job.reposition(partition.source, loss.resume):
                log.error(
                    "flow=%s partition=%s LOSS: %s. on.loss=continue: it goes on at %d.",
                    self._config.flow,
                    partition.source,
                    loss.reason,
                    loss.resume,
                )

    def _on_fatal(self, kind: str, reason: str) -> None:
        """Take note of a failure that a retry would only repeat. Called from a lease's thread."""
        if self._fatal is None:
            log.error("flow=%s FAILED (%s): %s", self._config.flow, kind, reason)
        self._fatal = reason

    def _failed(self, reason: str) -> None:
        self._state = State.FAILED
        if reason != self._reason:
            log.error("flow=%s FAILED: %s", self._config.flow, reason)
        self._reason = reason


def open_partition(start: Start) -> Partition:
    """Return the state in which a job begins with a partition."""
    route = start.route
    stop = None
    if start.made_anew:
        reason = (
            f"{route.source.topic} was deleted and made anew after upstream offset "
            f"{start.position.upstream} was reached; set on.loss=continue to copy the new one from its start"
        )
        stop = Stop("made-anew", start.position.upstream, reason, time.monotonic())
        log.error("partition=%s stopped: %s", route.source, reason)
    return Partition(
        source=route.source,
        topic_id=route.topic_id,
        remote=route.remote,
        max_message_bytes=route.max_message_bytes,
        position=start.position,
        stop=stop,
    )


def offsets_of(job: FlowJob) -> dict[TopicPartition, SourceOffset]:
    """Return what is to be saved; of a topic made anew the old record stays, with the old topic's id."""
    return {
        p.source: SourceOffset(p.position.upstream, p.position.downstream, p.topic_id)
        for p in job.partitions()
        if p.stop is None or p.stop.kind != "made-anew"
    }
