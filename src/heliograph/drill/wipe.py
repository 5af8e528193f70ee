"""Seed 002 in full: two clusters mirror each other, one is stopped and wiped, a new one gets all its data back.

    ClusterA  NginxServerLogs   <->  ClusterB  TomcatServerLogs      both ways, while logs are written
    ClusterB  is stopped, and its data deleted
    ClusterA  -> ClusterC       ClusterA.NginxServerLogs, ClusterA.ClusterB.TomcatServerLogs

Everything runs on this machine: one broker per cluster, and `heliograph run` as a separate process.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from heliograph.admin.topics import await_topics, create_topic
from heliograph.config.flow import FlowConfig
from heliograph.config.mirror import load_mirror
from heliograph.drill.compare import Difference
from heliograph.drill.ledger import Ledger, compare_ledgers, read_ledger
from heliograph.drill.report import Line, Step
from heliograph.drill.steps import StepLog, Watcher
from heliograph.drill.wipe_mirror import RunningMirror
from heliograph.drill.wipe_samples import Sampler, ends_of
from heliograph.embedded.cluster import Cluster as Brokers
from heliograph.embedded.cluster import start_cluster
from heliograph.errors import MirrorError
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.model import Endpoint
from heliograph.verify.flow import verify_flow
from heliograph.verify.report import Report as VerifyReport

NGINX, NGINX_PARTITIONS = "NginxServerLogs", 15
TOMCAT, TOMCAT_PARTITIONS = "TomcatServerLogs", 10
A, B, C = "ClusterA", "ClusterB", "ClusterC"
RECOVERED_NGINX = f"{A}.{NGINX}"
RECOVERED_TOMCAT = f"{A}.{B}.{TOMCAT}"
_BEGIN_LIMIT = 240.0
_COPY_LIMIT = 300.0
_POLL = 0.25
# The seed's file, for one broker per cluster.
_SETTINGS = """\
clusters = ClusterA, {other}
ClusterA.bootstrap.servers = {here}
{other}.bootstrap.servers = {there}

ClusterA.config.storage.replication.factor = 1
{other}.config.storage.replication.factor = 1
ClusterA.offset.storage.replication.factor = 1
{other}.offset.storage.replication.factor = 1
ClusterA.status.storage.replication.factor = 1
{other}.status.storage.replication.factor = 1

ClusterA->{other}.enabled = true
{other}->ClusterA.enabled = true

offset-syncs.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1

topics = .*
groups = .*

tasks.max = 30
replication.factor = 1
refresh.topics.enabled = true
sync.topic.configs.enabled = true
refresh.topics.interval.seconds = 30

topics.blacklist = .*[\\-\\.]internal, .*\\.replica, __consumer_offsets
groups.blacklist = console-consumer-.*, connect-.*, __.*

ClusterA->{other}.emit.heartbeats.enabled = true
ClusterA->{other}.emit.checkpoints.enabled = true
{other}->ClusterA.emit.heartbeats.enabled = true
{other}->ClusterA.emit.checkpoints.enabled = true
"""


class Load(Protocol):
    """Writes logs from `start` until `stop`, which returns how many records were stored."""

    def start(self) -> None:
        """Start to write."""

    def stop(self) -> int:
        """Return how many records were stored, once all of them are."""


MakeLoad = Callable[[Endpoint, str, int], Load]


@dataclass(frozen=True, slots=True)
class TopicAccount:
    """One topic: what was written to it, and what the new cluster holds of it."""

    topic: str
    recovered: str
    produced: int
    original: Ledger
    copy: Ledger

    @property
    def difference(self) -> Difference:
        return compare_ledgers(self.original, self.copy)

    @property
    def is_whole(self) -> bool:
        return self.original.records == self.produced and self.difference.is_none


@dataclass(frozen=True, slots=True)
class WipeResult:
    """The result of the scenario; moments are seconds from its start."""

    began: datetime
    seconds: float
    producing_seconds: float
    behind: int
    caught_up_after: float
    lost_at: float
    attached_at: float
    recovered_at: float
    accounts: tuple[TopicAccount, ...]
    verified: VerifyReport
    steps: tuple[Step, ...]
    held: tuple[Line, ...]

    @property
    def ok(self) -> bool:
        return self.verified.ok is True and all(account.is_whole for account in self.accounts)


def run_wipe(folder: Path, seconds: float, make_load: MakeLoad, watcher: Watcher) -> WipeResult:
    """Run the whole scenario in a folder; afterwards nothing of it is left there or running."""
    log = StepLog(watcher)
    with ExitStack() as cleanup:
        return _Scenario(folder, seconds, make_load, log, cleanup).run()


class _Scenario:
    """The clusters, the mirror and the load, and what is known of them so far."""

    def __init__(
        self, folder: Path, seconds: float, make_load: MakeLoad, log: StepLog, cleanup: ExitStack
    ) -> None:
        self._folder = folder
        self._seconds = seconds
        self._make_load = make_load
        self._log = log
        self._cleanup = cleanup
        self._brokers: dict[str, Brokers] = {}
        self._samples = Sampler(lambda: log.now)
        self._began = datetime.now(UTC)

    def run(self) -> WipeResult:
        self._start_brokers(A)
        self._start_brokers(B)
        forth, back = self._read_file(B)
        with self._log.step("make the two topics") as notes:
            _make_topic(forth.source, NGINX, NGINX_PARTITIONS)
            _make_topic(back.source, TOMCAT, TOMCAT_PARTITIONS)
            notes.append(f"{NGINX} on {A}, {NGINX_PARTITIONS} partitions")
            notes.append(f"{TOMCAT} on {B}, {TOMCAT_PARTITIONS} partitions")
        self._samples.watch(A, forth.source, [NGINX, f"{B}.{TOMCAT}"])
        self._samples.watch(B, back.source, [TOMCAT, RECOVERED_NGINX])
        self._samples.start()
        self._cleanup.callback(self._samples.stop)
        with self._log.step(f"start the mirror, {A} <-> {B}"):
            mirror = self._start_mirror(B)
            self._await(mirror, mirror.copies, _BEGIN_LIMIT, "the mirror to begin")
        produced = self._produce(forth.source, back.source)
        with self._log.step(f"wait until {A} holds all of {B}") as notes:
            ended = self._log.now
            behind = _behind(forth.source, produced[TOMCAT])
            originals = _read(forth.source, NGINX), _read(back.source, TOMCAT)
            self._await_copy(mirror, forth.source, f"{B}.{TOMCAT}", originals[1])
            self._await_copy(mirror, back.source, RECOVERED_NGINX, originals[0])
            caught_up_after = self._log.now - ended
            notes.append(f"{behind} records were not there when the load ended")
        lost_at = self._log.now
        with self._log.step(f"stop {B}, and delete all it held"):
            self._brokers.pop(B).wipe()
            self._samples.gone(B)
        mirror.ask_to_stop()
        self._start_brokers(C)
        with self._log.step("wait until the mirror has stopped"):
            mirror.stop()
        (anew,) = [f for f in self._read_file(C) if f.flow.target == C]
        self._samples.watch(C, anew.target, [RECOVERED_NGINX, RECOVERED_TOMCAT])
        attached_at = self._log.now
        with self._log.step(f"mirror {A} -> {C} until all is there") as notes:
            mirror = self._start_mirror(C)
            self._await_copy(mirror, anew.target, RECOVERED_TOMCAT, originals[1])
            self._await_copy(mirror, anew.target, RECOVERED_NGINX, originals[0])
            recovered_at = self._log.now
            notes.append(f"{sum(ledger.records for ledger in originals)} records")
        with self._log.step("stop the mirror again"):
            mirror.stop()
        with self._log.step(f"verify {A} -> {C}, record by record") as notes:
            verified = verify_flow(anew, complete=True)
            notes.append(f"{verified.compared} records")
        with self._log.step(f"compare {C} with all that was written"):
            accounts = (
                TopicAccount(
                    TOMCAT,
                    RECOVERED_TOMCAT,
                    produced[TOMCAT],
                    originals[1],
                    _read(anew.target, RECOVERED_TOMCAT),
                ),
                TopicAccount(
                    NGINX,
                    RECOVERED_NGINX,
                    produced[NGINX],
                    originals[0],
                    _read(anew.target, RECOVERED_NGINX),
                ),
            )
        return WipeResult(
            began=self._began,
            seconds=self._log.now,
            producing_seconds=self._seconds,
            behind=behind,
            caught_up_after=caught_up_after,
            lost_at=lost_at,
            attached_at=attached_at,
            recovered_at=recovered_at,
            accounts=accounts,
            verified=verified,
            steps=tuple(self._log.steps),
            held=self._samples.lines(),
        )

    def _start_brokers(self, name: str) -> None:
        with self._log.step(f"start {name}, a real Kafka broker") as notes:
            brokers = start_cluster(name, data_root=self._folder / "kafka")
            self._brokers[name] = brokers
            self._cleanup.callback(self._wipe, name)
            notes.append(brokers.bootstrap)

    def _wipe(self, name: str) -> None:
        if name in self._brokers:
            self._brokers.pop(name).wipe()

    def _read_file(self, other: str) -> tuple[FlowConfig, FlowConfig]:
        """Write the properties file for ClusterA and another, and return its flows, from ClusterA first."""
        text = _SETTINGS.format(
            other=other, here=self._brokers[A].bootstrap, there=self._brokers[other].bootstrap
        )
        self._file(other).write_text(text)
        flows = {flow.flow.source: flow for flow in load_mirror(self._file(other)).flows}
        return flows[A], flows[other]

    def _file(self, other: str) -> Path:
        return self._folder / f"{A}-{other}.properties"

    def _start_mirror(self, other: str) -> RunningMirror:
        mirror = RunningMirror(self._file(other), self._folder / f"{A}-{other}.log")
        self._cleanup.callback(mirror.stop)
        return mirror

    def _produce(self, here: Endpoint, there: Endpoint) -> Mapping[str, int]:
        with self._log.step("write logs to both clusters, mirrored both ways") as notes:
            loads = {
                NGINX: self._make_load(here, NGINX, NGINX_PARTITIONS),
                TOMCAT: self._make_load(there, TOMCAT, TOMCAT_PARTITIONS),
            }
            for load in loads.values():
                load.start()
            try:
                time.sleep(self._seconds)
            finally:
                produced = {topic: load.stop() for topic, load in loads.items()}
            notes += [f"{count} to {topic}" for topic, count in produced.items()]
        return produced

    def _await_copy(
        self, mirror: RunningMirror, endpoint: Endpoint, topic: str, original: Ledger
    ) -> None:
        """Wait until a topic holds what another one does; its end offsets show when to count its records."""
        with closing(Cluster(endpoint)) as cluster:

            def is_copied() -> bool:
                if patiently(lambda: ends_of(cluster, [topic]))[topic] < original.records:
                    return False
                return read_ledger(cluster, topic).records >= original.records

            what = f"{original.records} records in {topic} on {endpoint.cluster}"
            self._await(mirror, is_copied, _COPY_LIMIT, what)

    def _await(
        self, mirror: RunningMirror, condition: Callable[[], bool], within: float, what: str
    ) -> None:
        deadline = time.monotonic() + within
        while not condition():
            mirror.check()
            if time.monotonic() > deadline:
                raise MirrorError(f"the drill waited for {what}, in vain for {within:.0f} s.")
            time.sleep(_POLL)


def _make_topic(endpoint: Endpoint, topic: str, partitions: int) -> None:
    with closing(Cluster(endpoint)) as cluster:
        create_topic(cluster, topic, partitions, 1)
        await_topics(cluster, {topic: partitions})


def _read(endpoint: Endpoint, topic: str) -> Ledger:
    with closing(Cluster(endpoint)) as cluster:
        return read_ledger(cluster, topic)


def _behind(endpoint: Endpoint, produced: int) -> int:
    """Return how many records of ClusterB are not yet on ClusterA; end offsets would count markers too."""
    remote = f"{B}.{TOMCAT}"
    with closing(Cluster(endpoint)) as cluster:
        return max(produced - read_ledger(cluster, remote).records, 0)
