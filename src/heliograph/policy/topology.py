"""How clusters are connected, derived from the names of the topics that one of them holds.

A heartbeat is copied along every flow and takes the alias of each cluster that it leaves, so the
name of a copied heartbeats topic is the path it took, the nearest cluster first.
"""

from collections.abc import Iterable

from heliograph.policy.naming import NamingPolicy

UNREACHABLE = -1


def sources_of(topic: str, naming: NamingPolicy) -> list[str]:
    """Return the clusters that a topic came through, the nearest first, each once."""
    sources: list[str] = []
    above: str | None = topic
    while above is not None:
        source = naming.topic_source(above)
        # A naming that keeps the topic's name gives the same source forever.
        if source is None or source in sources:
            break
        sources.append(source)
        above = naming.upstream_topic(above)
    return sources


def count_hops(topic: str, alias: str, naming: NamingPolicy) -> int:
    """Return how many flows brought a topic here from cluster `alias`; UNREACHABLE if none did."""
    sources = sources_of(topic, naming)
    return sources.index(alias) + 1 if alias in sources else UNREACHABLE


def select_heartbeats(topics: Iterable[str], naming: NamingPolicy) -> set[str]:
    return {topic for topic in topics if naming.is_heartbeats_topic(topic)}


def select_checkpoints(topics: Iterable[str], naming: NamingPolicy) -> set[str]:
    return {topic for topic in topics if naming.is_checkpoints_topic(topic)}


def select_remote(
    topics: Iterable[str], naming: NamingPolicy, source: str | None = None
) -> set[str]:
    """Return the topics that are copies, of cluster `source` or of any; copied heartbeats are included."""
    return {
        topic
        for topic in topics
        if not naming.is_internal_topic(topic)
        and (found := naming.topic_source(topic)) is not None
        and source in (None, found)
    }


def find_upstream_clusters(topics: Iterable[str], naming: NamingPolicy) -> set[str]:
    """Return every cluster from which anything arrives here, through any number of other clusters."""
    beats = select_heartbeats(topics, naming)
    return {source for topic in beats for source in sources_of(topic, naming)}


def count_replication_hops(topics: Iterable[str], alias: str, naming: NamingPolicy) -> int:
    """Return the length of the shortest path from cluster `alias` to here; UNREACHABLE if there is none."""
    hops = [count_hops(topic, alias, naming) for topic in select_heartbeats(topics, naming)]
    return min((count for count in hops if count != UNREACHABLE), default=UNREACHABLE)
