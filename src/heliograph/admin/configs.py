"""Settings of topics: all entries with their sources, and changes to single ones."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kafka.protocol.admin import DescribeConfigsRequest, IncrementalAlterConfigsRequest

from heliograph.errors import KafkaFault
from heliograph.kafka.cluster import Cluster
from heliograph.net.faults import LOST_TOPIC, error_name, is_retriable
from heliograph.policy.topic_configs import ConfigChange, ConfigEntry, SetConfig

_TOPIC_RESOURCE: Final = 2
_BROKER_RESOURCE: Final = 4
_SET: Final = 0
_DELETE: Final = 1
_TOPICS_PER_REQUEST: Final = 500
_CHANGES_PER_REQUEST: Final = 5_000  # a KRaft controller accepts 10,000 records at once

Changes = Mapping[str, Sequence[ConfigChange]]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a broker refused a request: Kafka's name of the error, and perhaps the broker's message."""

    error: str
    words: str | None
    retriable: bool

    def __str__(self) -> str:
        return f"{self.error}: {self.words}" if self.words else self.error


@dataclass(frozen=True, slots=True)
class TopicConfigs:
    """The entries of each topic, and why those of others could not be read."""

    found: Mapping[str, Sequence[ConfigEntry]]
    refused: Mapping[str, Refusal]


def describe_configs(
    cluster: Cluster, topics: Iterable[str], keys: Sequence[str] | None = None
) -> TopicConfigs:
    """Return the entries of these topics, all or only `keys`; a topic that does not exist is left out."""
    spec = DescribeConfigsRequest.DescribeConfigsResource
    names = list(topics)
    found = {}
    refused = {}
    for at in range(0, len(names), _TOPICS_PER_REQUEST):
        request = DescribeConfigsRequest(
            resources=[
                spec(resource_type=_TOPIC_RESOURCE, resource_name=name, configuration_keys=keys)
                for name in names[at : at + _TOPICS_PER_REQUEST]
            ],
            include_synonyms=False,
            include_documentation=False,
        )
        for result in cluster.call(request, newest=4).results:
            if result.error_code == 0:
                found[result.resource_name] = [
                    ConfigEntry(e.name, e.value, e.config_source, e.read_only, e.is_sensitive)
                    for e in result.configs
                ]
            elif result.error_code not in LOST_TOPIC:
                refused[result.resource_name] = _refusal(result.error_code, result.error_message)
    return TopicConfigs(found, refused)


def topic_configs(
    cluster: Cluster, topics: Iterable[str], keys: Sequence[str]
) -> dict[str, dict[str, str]]:
    """Return the effective values of `keys` for each topic; a topic that cannot be read is left out."""
    return {
        topic: {entry.name: entry.value for entry in entries if entry.value is not None}
        for topic, entries in describe_configs(cluster, topics, keys).found.items()
    }


def broker_setting(cluster: Cluster, key: str) -> str | None:
    """Return a setting of the first broker that answers; None if the broker does not report it."""
    fault = KafkaFault(f"read {key} of {cluster.endpoint.cluster}", "it has no brokers", True)
    for node in cluster.nodes():
        try:
            return _setting_of(cluster, node, key)
        except KafkaFault as exc:
            fault = exc
    raise fault


def _setting_of(cluster: Cluster, node: int, key: str) -> str | None:
    spec = DescribeConfigsRequest.DescribeConfigsResource
    request = DescribeConfigsRequest(
        resources=[
            spec(resource_type=_BROKER_RESOURCE, resource_name=str(node), configuration_keys=[key])
        ],
        include_synonyms=False,
        include_documentation=False,
    )
    for result in cluster.call(request, node, newest=4).results:
        for entry in result.configs if result.error_code == 0 else ():
            if entry.name == key and entry.value is not None:
                return str(entry.value)
    return None


def alter_configs(cluster: Cluster, changes: Changes) -> dict[str, Refusal]:
    """Make these changes, per topic all or none; return the topics where none was made."""
    refused = {}
    for part in _parts(changes):
        for answer in cluster.call(_alteration(part), newest=1).responses:
            if answer.error_code:
                why = _refusal(answer.error_code, answer.error_message)
                refused[answer.resource_name] = why
    return refused


def _parts(changes: Changes) -> Iterator[Changes]:
    """Yield the changes in parts that one request may hold; a topic is in one part."""
    part: dict[str, Sequence[ConfigChange]] = {}
    room = _CHANGES_PER_REQUEST
    for topic, wanted in changes.items():
        if part and len(wanted) > room:
            yield part
            part, room = {}, _CHANGES_PER_REQUEST
        part[topic] = wanted
        room -= len(wanted)
    if part:
        yield part


def _alteration(changes: Changes) -> IncrementalAlterConfigsRequest:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    return IncrementalAlterConfigsRequest(
        resources=[
            resource(
                resource_type=_TOPIC_RESOURCE,
                resource_name=topic,
                configs=[
                    resource.AlterableConfig(
                        name=change.name,
                        config_operation=_SET if isinstance(change, SetConfig) else _DELETE,
                        value=change.value if isinstance(change, SetConfig) else None,
                    )
                    for change in wanted
                ],
            )
            for topic, wanted in changes.items()
        ],
        validate_only=False,
    )


def _refusal(code: int, words: str | None) -> Refusal:
    return Refusal(error_name(code), words, is_retriable(code))
