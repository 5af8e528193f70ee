"""Settings of remote topics, kept equal to those of their source; `policy/topic_configs.py` has the rules."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from heliograph.admin.configs import Refusal, alter_configs, describe_configs
from heliograph.config.flow import FlowConfig
from heliograph.errors import KafkaFault
from heliograph.flows.source import select_topics
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.policy.filters import NameFilter
from heliograph.policy.topic_configs import (
    ConfigChange,
    ConfigEntry,
    SetConfig,
    plan_configs,
)

log = logging.getLogger(__name__)

_TOPICS_PER_REQUEST = 500
_NOT_ALLOWED = "TOPIC_AUTHORIZATION_FAILED"


class Difference(NamedTuple):
    """A setting whose values on the two sides differ, though they should be the same."""

    name: str
    source: str | None
    target: str | None


class _Pair(NamedTuple):
    topic: str
    remote: str
    upstream: Sequence[ConfigEntry]
    downstream: Sequence[ConfigEntry]


def sync_topic_configs(config: FlowConfig, source: Cluster, target: Cluster) -> list[str]:
    """Give remote topics the settings of their source; return a sentence for each thing not done.

    For a schedule: it blocks, and the next call retries what this one could not do. It writes nothing
    if nothing differs, and raises only if a cluster as a whole does not answer.
    """
    left: list[str] = []
    for plans, unread in plan_topic_configs(config, source, target):
        left += unread
        try:
            left += _change(config, target, plans)
        except KafkaFault as exc:
            if exc.error != "UNSUPPORTED_VERSION":
                raise
            return [*left, _too_old(target)]
    return left


def plan_topic_configs(
    config: FlowConfig, source: Cluster, target: Cluster
) -> Iterator[tuple[dict[str, list[ConfigChange]], list[str]]]:
    """Yield, for some hundred topics at a time, what must change on each, and what could not be read."""
    plan_pair = _planner(config)
    for pairs, unread in _read_pairs(config, source, target):
        yield {pair.remote: plan for pair in pairs if (plan := plan_pair(pair))}, unread


def compare_topic_configs(
    config: FlowConfig, source: Cluster, target: Cluster
) -> Iterator[tuple[dict[str, list[Difference]], list[str]]]:
    """Yield, for some hundred source topics at a time, what differs from their copies, and what is not known.

    Only settings that should be the same count.
    """
    plan_pair = _planner(config)
    for pairs, unread in _read_pairs(config, source, target):
        yield {p.topic: _differences(p, plan) for p in pairs if (plan := plan_pair(p))}, unread


def compare_configs(
    config: FlowConfig, upstream: Sequence[ConfigEntry], downstream: Sequence[ConfigEntry]
) -> list[Difference]:
    """Return the settings that differ between a topic and its copy, though they should be the same."""
    pair = _Pair("", "", upstream, downstream)
    return _differences(pair, _planner(config)(pair))


def _read_pairs(
    config: FlowConfig, source: Cluster, target: Cluster
) -> Iterator[tuple[list[_Pair], list[str]]]:
    selected = select_topics(config, patiently(source.describe).values())
    remotes = sorted(selected)
    for at in range(0, len(remotes), _TOPICS_PER_REQUEST):
        names = remotes[at : at + _TOPICS_PER_REQUEST]
        downstream = patiently(partial(describe_configs, target, names))
        names = [selected[remote].name for remote in downstream.found]
        upstream = patiently(partial(describe_configs, source, names))
        unread = [_unread(target, topic, why) for topic, why in downstream.refused.items()]
        unread += [_unread(source, topic, why) for topic, why in upstream.refused.items()]
        pairs = [
            _Pair(name, remote, upstream.found.get(name, ()), entries)
            for remote, entries in downstream.found.items()
            for name in [selected[remote].name]
        ]
        yield pairs, unread


def _planner(config: FlowConfig) -> Callable[[_Pair], list[ConfigChange]]:
    excluded = NameFilter(config.mirroring.config_properties_exclude, ()).accepts
    defaults = config.flow_only.use_defaults_from
    return lambda pair: plan_configs(pair.upstream, pair.downstream, excluded, defaults)


def _differences(pair: _Pair, plan: Iterable[ConfigChange]) -> list[Difference]:
    upstream = {entry.name: entry.value for entry in pair.upstream}
    downstream = {entry.name: entry.value for entry in pair.downstream if not entry.sensitive}
    return [
        Difference(change.name, upstream.get(change.name), downstream.get(change.name))
        for change in plan
    ]


def _change(
    config: FlowConfig, target: Cluster, plans: Mapping[str, Sequence[ConfigChange]]
) -> list[str]:
    """Apply plans. A topic is changed as a whole, or change by change if that is refused."""
    refused = patiently(partial(alter_configs, target, plans))
    single = {t: plans[t] for t, why in refused.items() if len(plans[t]) > 1 and _may_be_one(why)}
    left = [_unchanged(target, t, plans[t], why) for t, why in refused.items() if t not in single]
    done = {topic: list(plan) for topic, plan in plans.items() if topic not in refused}
    for at in range(max(map(len, single.values()), default=0)):
        # A topic can be in a request only once: this one has the next change of each.
        changes = {topic: plan[at : at + 1] for topic, plan in single.items() if at < len(plan)}
        refused = patiently(partial(alter_configs, target, changes))
        for topic, change in changes.items():
            if topic in refused:
                left.append(_unchanged(target, topic, change, refused[topic]))
            else:
                done.setdefault(topic, []).extend(change)
    for topic, changed in done.items():
        _tell(config, topic, changed)
    return left


def _may_be_one(why: Refusal) -> bool:
    """Return whether the fault may be that of a single change, rather than of the topic."""
    return why.error != _NOT_ALLOWED and not why.retriable


def _tell(config: FlowConfig, topic: str, changes: Iterable[ConfigChange]) -> None:
    given: list[str] = []
    reset: list[str] = []
    for change in changes:
        (given if isinstance(change, SetConfig) else reset).append(change.name)
    log.info(
        "flow=%s topic=%s set=%s reset=%s", config.flow, topic, ",".join(given), ",".join(reset)
    )


def _unread(cluster: Cluster, topic: str, why: Refusal) -> str:
    then = "It is tried again at the next sync."
    if why.error == _NOT_ALLOWED:
        then = f"Allow the mirror's user DESCRIBE_CONFIGS on it on {cluster.endpoint.cluster}."
    return f"{cluster.endpoint.cluster}: cannot read the configuration of topic {topic} ({why}). {then}"


def _unchanged(target: Cluster, topic: str, changes: Sequence[ConfigChange], why: Refusal) -> str:
    name = target.endpoint.cluster
    keys = ", ".join(change.name for change in changes)
    if why.error == _NOT_ALLOWED:
        then = f"Allow the mirror's user ALTER_CONFIGS on it on {name}."
    elif _may_be_one(why):
        then = f"Change {keys} on the source, or add it to config.properties.exclude."
    else:
        then = "It is tried again at the next sync."
    what = ", ".join(map(str, changes))
    return f"{name}: topic {topic} does not get {what} ({why}). {then}"


def _too_old(target: Cluster) -> str:
    return (
        f"{target.endpoint.cluster}: its brokers are older than Kafka 2.3 and cannot change single settings "
        "of a topic (IncrementalAlterConfigs). Upgrade them, or set sync.topic.configs.enabled=false."
    )
