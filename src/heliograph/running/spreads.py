"""Topics whose records are placed by key into another number of partitions: logged once, and never translated."""

import logging
from collections.abc import Sequence

from heliograph.flows.source import Route
from heliograph.model import Flow
from heliograph.saved.runs import RunStore

log = logging.getLogger(__name__)


class Spreads:
    """What one flow knows of such topics."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._known: dict[str, tuple[str, int]] = {}

    def look(self, routes: Sequence[Route], runs: RunStore) -> None:
        """Log which topics are placed by key, where that is new, and forget what is known of their offsets."""
        spreads = {r.source.topic: (r.remote.topic, r.spread) for r in routes if r.spread}
        for topic, (remote, spread) in spreads.items():
            if self._known.get(topic) != (remote, spread):
                log.info(
                    "flow=%s topic=%s is placed by key into the partitions=%d of %s: at least once after a "
                    "crash, and no offsets of it are translated",
                    self._flow,
                    topic,
                    spread,
                    remote,
                )
        self._known = spreads
        for route in routes:
            if route.spread and runs.knows(route.source):
                runs.clear(route.source)
