"""Settings of topics: all entries with where they come from, and changes to single ones."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kafka.protocol.admin import DescribeConfigsRequest, IncrementalAlterConfigsRequest

from heliograph.kafka.cluster import Cluster
from heliograph.kafka.faults import LOST_TOPIC, error_name, is_retriable
from heliograph.policy.topic_configs import ConfigChange, ConfigEntry, SetConfig

_TOPIC_RESOURCE: Final = 2
_SET: Final = 0
_DELETE: Final = 1


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a broker did not do what it was asked, in Kafka's name and perhaps words of its own."""

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


def describe_configs(cluster: Cluster, topics: Collection[str]) -> TopicConfigs:
    """Return all entries of these topics; a topic that does not exist is left out."""
    if not topics:
        return TopicConfigs({}, {})
    spec = DescribeConfigsRequest.DescribeConfigsResource
    request = DescribeConfigsRequest(
        resources=[
            spec(resource_type=_TOPIC_RESOURCE, resource_name=topic, configuration_keys=None)
            for topic in topics
        ],
        include_synonyms=False,
        include_documentation=False,
    )
    found = {}
    refused = {}
    for result in cluster.call(request, newest=4).results:
        if result.error_code == 0:
            found[result.resource_name] = [
                ConfigEntry(e.name, e.value, e.config_source, e.read_only, e.is_sensitive)
                for e in result.configs
            ]
        elif result.error_code not in LOST_TOPIC:
            refused[result.resource_name] = _refusal(result.error_code, result.error_message)
    return TopicConfigs(found, refused)


def alter_configs(
    cluster: Cluster, changes: Mapping[str, Iterable[ConfigChange]]
) -> dict[str, Refusal]:
    """Make these changes, those of a topic all or none; return the topics where none was made."""
    if not changes:
        return {}
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    request = IncrementalAlterConfigsRequest(
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
    return {
        answer.resource_name: _refusal(answer.error_code, answer.error_message)
        for answer in cluster.call(request, newest=1).responses
        if answer.error_code
    }


def _refusal(code: int, words: str | None) -> Refusal:
    return Refusal(error_name(code), words, is_retriable(code))
