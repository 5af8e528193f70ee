"""Whether a flow may copy: one that was failed over is held until it is failed back."""

from contextlib import closing

from heliograph.config.flow import FlowConfig
from heliograph.errors import FlowHeld
from heliograph.flows.source import naming_of
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.table import Table
from heliograph.policy.naming import holds_topic
from heliograph.wire.hold_records import Hold, decode_hold, encode_hold


class HoldStore:
    """What is known of one flow, on its target."""

    def __init__(self, target: Cluster, config: FlowConfig) -> None:
        self._target = target
        self._flow = str(config.flow)
        self._topic = holds_topic(naming_of(config), config.flow.source)
        self._replication_factor = config.offset_storage.replication_factor
        self._table = Table(target, self._topic)

    def read(self) -> Hold | None:
        """Return why the flow is held; None if it is not."""
        if self._topic not in self._target.describe([self._topic]):
            return None
        value = self._table.read().get(self._flow.encode())
        return None if value is None else decode_hold(self._flow.encode(), value)

    def check(self) -> None:
        """Raise FlowHeld if the flow must not copy."""
        hold = self.read()
        if hold is not None:
            raise FlowHeld(hold.flow, hold.since)

    def write(self, hold: Hold) -> None:
        """Hold the flow, making the topic if it is not there."""
        self._table.ensure(1, self._replication_factor)
        key, value = encode_hold(hold)
        self._table.write({key: value})

    def release(self) -> None:
        """Let the flow go on."""
        if self.read() is not None:
            self._table.write({self._flow.encode(): None})


def is_held(config: FlowConfig) -> bool:
    """Return whether a flow is held, over a connection of its own."""
    with closing(Cluster(config.target_admin)) as target:
        return HoldStore(target, config).read() is not None
