"""Which driver owns a flow: a row that its owner writes as the fenced author, so that no other driver can."""

import logging
from datetime import timedelta

from heliograph.config.flow import FlowConfig
from heliograph.config.naming import naming_of
from heliograph.errors import CorruptRecord
from heliograph.kafka.cluster import Cluster
from heliograph.policy.naming import runs_topic
from heliograph.tables.author import Author
from heliograph.tables.table import Table
from heliograph.wire.owner_records import Owner, decode_owner, encode_owner, encode_owner_key

log = logging.getLogger(__name__)


class OwnerStore:
    """The row of one flow in its runs topic, which must exist."""

    def __init__(self, target: Cluster, config: FlowConfig) -> None:
        self._flow = config.flow
        self._key = encode_owner_key(config.transactional_id)
        self._table = Table(target, runs_topic(naming_of(config), config.flow.source))

    def sign_as(self, author: Author) -> None:
        self._table.sign_as(author)

    def read(self) -> Owner | None:
        """Return the driver that owns the flow, or owned it last; None if no driver did."""
        value = self._table.read().get(self._key)
        if value is None:
            return None
        try:
            return decode_owner(value)
        except CorruptRecord as exc:
            log.warning("flow=%s it is not known which driver had it last: %s", self._flow, exc)
            return None

    def write(self, owner: Owner, within: timedelta) -> None:
        self._table.write({self._key: encode_owner(owner)}, within)
