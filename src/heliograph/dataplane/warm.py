"""Connections that outlive an epoch: Spark reuses its Python workers, so a module global stays open.

A worker serves one task at a time, as reader or writer; a cluster object is handed to one user at a
time, so nothing here needs a lock.
"""

from heliograph.kafka.cluster import Cluster
from heliograph.model import Endpoint

_clusters: dict[Endpoint, Cluster] = {}


def warm_cluster(endpoint: Endpoint) -> Cluster:
    """Return this process's connections to a cluster, opened on first use and kept.

    Whoever takes them must leave no answer unread on them, or drop the channel.
    """
    cluster = _clusters.get(endpoint)
    if cluster is None:
        cluster = _clusters[endpoint] = Cluster(endpoint)
    return cluster
