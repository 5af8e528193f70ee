"""Topics on a cluster: what there is, and making or growing what a plan asks for."""

import time
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DescribeConfigsRequest,
)

from heliograph.errors import KafkaFault
from heliograph.kafka.cluster import NO_LEADER, Cluster, Topic, patiently
from heliograph.kafka.faults import TOPIC_ALREADY_EXISTS, error_name, fault_for, is_retriable

_TIMEOUT_MS = 30_000
_PATIENCE = timedelta(seconds=15)
_PAUSE = 0.05
_TOPIC_RESOURCE = 2
_SET_ON_TOPIC = 1
_NO_ASSIGNMENT: list[object] = []


def create_topic(
    cluster: Cluster,
    name: str,
    partitions: int,
    replication_factor: int,
    config: Mapping[str, str] | None = None,
) -> None:
    """Create a topic; one that exists already is left as it is."""
    spec = CreateTopicsRequest.CreatableTopic
    request = CreateTopicsRequest(
        topics=[
            spec(
                name=name,
                num_partitions=partitions,
                replication_factor=replication_factor,
                assignments=_NO_ASSIGNMENT,
                configs=[
                    spec.CreatableTopicConfig(name=key, value=value)
                    for key, value in (config or {}).items()
                ],
            )
        ],
        timeout_ms=_TIMEOUT_MS,
        validate_only=False,
    )
    (answer,) = cluster.call(request).topics
    if answer.error_code not in (0, TOPIC_ALREADY_EXISTS):
        raise _refusal(f"create topic {name} on {cluster.endpoint.cluster}", answer)


def await_topics(
    cluster: Cluster, wanted: Mapping[str, int], within: timedelta = _PATIENCE
) -> dict[str, Topic]:
    """Return these topics once all their partitions have leaders, or what there is of them in time.

    A broker answers for a topic a moment after the controller has made it.
    """
    deadline = time.monotonic() + within.total_seconds()
    while True:
        found = patiently(lambda: cluster.describe(wanted), within)
        ready = all(
            name in found and sum(n != NO_LEADER for n in found[name].leaders) >= partitions
            for name, partitions in wanted.items()
        )
        if ready or time.monotonic() > deadline:
            return found
        time.sleep(_PAUSE)


def grow_topic(cluster: Cluster, name: str, partitions: int) -> None:
    """Raise a topic's partition count to `partitions`."""
    request = CreatePartitionsRequest(
        topics=[
            CreatePartitionsRequest.CreatePartitionsTopic(
                name=name, count=partitions, assignments=None
            )
        ],
        timeout_ms=_TIMEOUT_MS,
        validate_only=False,
    )
    (answer,) = cluster.call(request).results
    if answer.error_code:
        doing = f"grow topic {name} to {partitions} partitions on {cluster.endpoint.cluster}"
        raise _refusal(doing, answer)


def topic_configs(
    cluster: Cluster, names: Iterable[str], keys: Iterable[str]
) -> dict[str, dict[str, str]]:
    """Return the effective value of `keys` for each topic; a topic that is gone is left out."""
    return {
        result.resource_name: {entry.name: entry.value for entry in result.configs}
        for result in _describe_configs(cluster, names, list(keys))
        if result.error_code == 0
    }


def own_configs(cluster: Cluster, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return what was set on each topic itself; broker defaults and secrets are left out."""
    found = {}
    for result in _describe_configs(cluster, names, None):
        if result.error_code:
            doing = f"describe the configuration of {result.resource_name}"
            raise fault_for(doing, result.error_code)
        found[result.resource_name] = {
            entry.name: entry.value
            for entry in result.configs
            if entry.config_source == _SET_ON_TOPIC and not entry.is_sensitive
        }
    return found


def _describe_configs(cluster: Cluster, names: Iterable[str], keys: list[str] | None) -> list[Any]:
    """Return what the broker says of each topic's configuration; Any, as kafka-python has no types."""
    spec = DescribeConfigsRequest.DescribeConfigsResource
    request = DescribeConfigsRequest(
        resources=[
            spec(resource_type=_TOPIC_RESOURCE, resource_name=name, configuration_keys=keys)
            for name in names
        ],
        include_synonyms=False,
        include_documentation=False,
    )
    return list(cluster.call(request).results)


def _refusal(doing: str, answer: object) -> KafkaFault:
    code = int(getattr(answer, "error_code"))  # noqa: B009 - kafka-python's messages are untyped
    words = getattr(answer, "error_message", None)
    if words:
        return KafkaFault(doing, f"{error_name(code)}: {words}", is_retriable(code))
    return fault_for(doing, code)
