"""How a cluster is queried for a user who waits: over a separate connection, and for some seconds."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import Final

from heliograph.kafka.cluster import Cluster
from heliograph.model import Endpoint

PATIENCE: Final = timedelta(seconds=5)


@contextmanager
def look_at(endpoint: Endpoint, within: timedelta = PATIENCE) -> Iterator[Cluster]:
    """Open a cluster that answers, for one query; raises what goes wrong with it."""
    with closing(Cluster(endpoint, within)) as cluster:
        cluster.describe(())
        yield cluster


def fits(search: str, name: str) -> bool:
    """Return whether a name matches a search."""
    return search.lower() in name.lower()
