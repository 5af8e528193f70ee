"""Whether a flow may copy: a flow that was failed over is held until it is failed back."""

import logging
from contextlib import closing
from dataclasses import dataclass
from uuid import UUID

from heliograph.config.flow import FlowConfig
from heliograph.config.naming import naming_of
from heliograph.errors import FlowHeld
from heliograph.kafka.cluster import Cluster
from heliograph.policy.naming import holds_topic
from heliograph.tables.table import Table
from heliograph.wire.hold_records import Hold, decode_hold, encode_hold

log = logging.getLogger(__name__)


@dataclass(slots=True)
class LastHold:
    """The hold of one flow that a driver read last, and the id of its topic. It outlives the driver's connections."""

    topic_id: UUID | None = None
    hold: Hold | None = None


class HoldStore:
    """Reads and writes whether one flow is held, on its target.

    With the `last` hold, a hold outlives its topic: if the topic is deleted, the hold is written again.
    """

    def __init__(self, target: Cluster, config: FlowConfig, last: LastHold | None = None) -> None:
        self._target = target
        self._last = last or LastHold()
        self._flow = str(config.flow)
        self._topic = holds_topic(naming_of(config), config.flow.source)
        self._replication_factor = config.offset_storage.replication_factor
        self._table = Table(target, self._topic)

    def read(self) -> Hold | None:
        """Return why the flow is held; None if it is not."""
        topic_id = self._topic_id()
        hold = None if topic_id is None else self._find()
        if hold is None and self._last.hold is not None and self._last.topic_id != topic_id:
            log.error(
                "flow=%s topic=%s was deleted, which said that the flow was failed over. It is written again. "
                "Check who deleted it.",
                self._flow,
                self._topic,
            )
            hold = self._last.hold
            self.write(hold)
            topic_id = self._topic_id()
        self._last.topic_id, self._last.hold = topic_id, hold
        return hold

    def _topic_id(self) -> UUID | None:
        topic = self._target.describe([self._topic]).get(self._topic)
        return None if topic is None else topic.topic_id

    def _find(self) -> Hold | None:
        value = self._table.read().get(self._flow.encode())
        return None if value is None else decode_hold(self._flow.encode(), value)

    def check(self) -> None:
        """Raise FlowHeld if the flow must not copy."""
        hold = self.read()
        if hold is not None:
            raise FlowHeld(hold.flow, hold.since)

    def write(self, hold: Hold) -> None:
        """Hold the flow; create the topic if it does not exist."""
        self._table.ensure(1, self._replication_factor)
        key, value = encode_hold(hold)
        self._table.write({key: value})

    def release(self) -> None:
        """Allow the flow to copy again."""
        if self.read() is not None:
            self._table.write({self._flow.encode(): None})


def is_held(config: FlowConfig, last: LastHold) -> bool:
    """Return whether a flow is held, over a separate connection."""
    with closing(Cluster(config.target_admin)) as target:
        return HoldStore(target, config, last).read() is not None
