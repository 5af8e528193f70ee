"""What MirrorHeartbeatConnector does: a record per second which shows that the target is writable."""

import time
from collections.abc import Iterable

from heliograph.config.flow import FlowConfig
from heliograph.config.naming import naming_of
from heliograph.flows.schedule import Chore
from heliograph.kafka.cluster import Cluster
from heliograph.tables.append import Appender
from heliograph.tables.table import Table
from heliograph.wire.mirror_records import Heartbeat, encode_heartbeat


class Heart:
    """Writes the heartbeats of one flow to its target."""

    def __init__(self, config: FlowConfig) -> None:
        self._config = config
        self._target = Cluster(config.target_admin)
        self._table = Table(self._target, naming_of(config).heartbeats_topic())
        self._appender: Appender | None = None

    def chores(self) -> list[Chore]:
        beats = self._config.heartbeats
        return (
            [Chore("heartbeat", beats.emit_heartbeats_interval, self.beat)] if beats.emits else []
        )

    def close(self) -> None:
        self._target.close()

    def beat(self) -> Iterable[str]:
        """Write one heartbeat; create the topic if it does not exist."""
        appender, self._appender = self._appender, None
        if appender is None:
            self._table.ensure(1, self._config.heartbeats.heartbeats_topic_replication_factor)
            appender = Appender(self._target, self._table.topic)
        flow = self._config.flow
        now = time.time_ns() // 1_000_000
        row = encode_heartbeat(Heartbeat(flow.source, flow.target, now))
        appender.append({0: [row]}, self._config.common.admin_timeout, now)
        self._appender = appender  # only one that works is reused
        return ()
