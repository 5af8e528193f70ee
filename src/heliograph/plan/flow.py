"""What one flow would do, from the same functions that do it. Reads only; creates and changes nothing."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

from heliograph.admin.log_dirs import partition_sizes
from heliograph.config.flow import FlowConfig
from heliograph.config.naming import naming_of, skips_of
from heliograph.errors import ConfigError, FlowHeld, KafkaFault, MirrorError
from heliograph.flows.checkpoint import Checkpointer
from heliograph.flows.group_sync import plan_group_sync
from heliograph.flows.offset_syncs import offset_syncs_topic
from heliograph.flows.source import RemotePlan, Route, plan_remotes, route_topics, select_topics
from heliograph.flows.starts import Origin as StartOrigin
from heliograph.flows.starts import Start, find_loss, plan_starts
from heliograph.flows.take_over import (
    StillMirrored,
    check_stopped,
    settle_starts,
)
from heliograph.flows.topic_acls import plan_acls
from heliograph.flows.topic_configs import plan_topic_configs
from heliograph.groups.admin import list_groups
from heliograph.kafka.cluster import Cluster, Topic, patiently
from heliograph.kafka.offsets import EARLIEST, LATEST, list_offsets
from heliograph.model import Endpoint, TopicPartition
from heliograph.plan.judgement import (
    count_backlog,
    explain_skip,
    refusal_to_replicate,
)
from heliograph.plan.report import (
    ConfigsToChange,
    FlowPlan,
    GroupPlan,
    PartitionPlan,
    SkippedTopic,
    TopicToGrow,
    TopicToMake,
)
from heliograph.policy.filters import NameFilter, Skip
from heliograph.policy.naming import runs_topic
from heliograph.saved.holds import HoldStore
from heliograph.saved.progress import peek_progress

_Offsets = Mapping[TopicPartition, int]
_GROUPS_TOPIC = "__consumer_offsets"


@dataclass(frozen=True, slots=True)
class _Desk:
    """The clusters of one flow, all of which have answered, and the topics of the first two."""

    config: FlowConfig
    source: Cluster
    target: Cluster
    storage: Cluster
    syncs: Cluster
    topics: Mapping[str, Topic]
    existing: Mapping[str, Topic]

    @property
    def selected(self) -> dict[str, Topic]:
        return select_topics(self.config, self.topics.values())


def plan_flow(config: FlowConfig) -> tuple[FlowPlan, list[str]]:
    """Return a flow's plan, and the topics of its source as far as they are known."""
    names: list[str] = []
    with ExitStack() as stack:

        def connect(endpoint: Endpoint) -> Cluster:
            cluster = stack.enter_context(closing(Cluster(endpoint)))
            cluster.describe(())  # an unreachable one fails at once, without retries
            return cluster

        try:
            source, target = connect(config.source_admin), connect(config.target_admin)
            storage, syncs = connect(config.offset_storage.endpoint), connect(config.offset_syncs)
            topics = patiently(source.describe)
            names = [topic.name for topic in topics.values() if not topic.internal]
            existing = patiently(target.describe)
            desk = _Desk(config, source, target, storage, syncs, topics, existing)
            return _look(desk), names
        except ConfigError:
            raise
        except MirrorError as exc:
            return FlowPlan(config.flow, failure=str(exc)), names


def _look(desk: _Desk) -> FlowPlan:
    config = desk.config
    hold = HoldStore(desk.target, config).read()
    selected = desk.selected
    remotes = patiently(lambda: plan_remotes(config, desk.source, selected, desk.existing))
    partitions, problems, notes = _partitions(desk, selected, remotes)
    configs, unread_configs = _configs(desk)
    acls, unread_acls = (
        plan_acls(config, desk.source, desk.target)
        if config.mirroring.syncs_topic_acls
        else ([], [])
    )
    groups, troubles = _groups(desk)
    make = tuple(_make(desk, selected, remotes))
    internal = tuple(_make_internal(desk))
    problems += [*remotes.refused.values()]
    problems += dict.fromkeys(each.problem for each in (*make, *internal) if each.problem)
    return FlowPlan(
        config.flow,
        held=None if hold is None else str(FlowHeld(hold.flow, hold.since)),
        make=make,
        make_internal=internal,
        grow=tuple(
            TopicToGrow(selected[remote].name, remote, len(desk.existing[remote].leaders), count)
            for remote, count in sorted(remotes.growths.items())
        ),
        skip=tuple(_skips(desk)),
        configs=configs,
        acls=tuple(acls),
        partitions=partitions,
        groups=groups,
        problems=tuple(problems),
        notes=(*notes, *unread_configs, *unread_acls, *troubles),
    )


def _skips(desk: _Desk) -> Iterator[SkippedTopic]:
    config = desk.config
    names = NameFilter(config.mirroring.topics, config.mirroring.topics_exclude)
    skips = skips_of(config)
    for topic in sorted(desk.topics.values(), key=lambda topic: topic.name):
        skip = Skip.INTERNAL if topic.internal else skips(topic.name)
        if skip is not None:
            yield SkippedTopic(topic.name, explain_skip(topic.name, skip, names))


def _make(desk: _Desk, selected: Mapping[str, Topic], remotes: RemotePlan) -> Iterator[TopicToMake]:
    for new in sorted(remotes.new, key=lambda new: new.name):
        yield _checked(
            desk.target,
            TopicToMake(
                desk.config.flow.target,
                new.name,
                new.partitions,
                new.replication_factor,
                selected[new.name].name,
                new.config,
            ),
            "replication.factor",
        )


def _make_internal(desk: _Desk) -> Iterator[TopicToMake]:
    """Yield the internal topics of a flow that do not exist yet."""
    config = desk.config
    naming = naming_of(config)
    storage = config.offset_storage
    own: list[tuple[Cluster, str, int, int, str]] = []
    if config.positions_group is None:
        key = "offset.storage.replication.factor"
        runs = runs_topic(naming, config.flow.source)
        if storage.file is None:
            own.append(
                (desk.storage, storage.name, storage.partitions, storage.replication_factor, key)
            )
        own.append((desk.target, runs, 1, storage.replication_factor, key))
    if config.mirroring.emit_offset_syncs_enabled:
        key = "offset-syncs.topic.replication.factor"
        factor = config.mirroring.offset_syncs_topic_replication_factor
        own.append((desk.syncs, offset_syncs_topic(config), 1, factor, key))
    if config.emits_checkpoints:
        key = "checkpoints.topic.replication.factor"
        topic = naming.checkpoints_topic(config.flow.source)
        own.append(
            (desk.target, topic, 1, config.checkpoints.checkpoints_topic_replication_factor, key)
        )
    if config.heartbeats.emits:
        own.append(_heartbeats(config, desk.target))
    for cluster, topic, partitions, factor, key in own:
        if topic not in _described(cluster, topic):
            made = TopicToMake(cluster.endpoint.cluster, topic, partitions, factor)
            yield _checked(cluster, made, key)


def _heartbeats(config: FlowConfig, target: Cluster) -> tuple[Cluster, str, int, int, str]:
    factor = config.heartbeats.heartbeats_topic_replication_factor
    return (
        target,
        naming_of(config).heartbeats_topic(),
        1,
        factor,
        "heartbeats.topic.replication.factor",
    )


def _described(cluster: Cluster, topic: str) -> dict[str, Topic]:
    return patiently(lambda: cluster.describe([topic]))


def _checked(cluster: Cluster, made: TopicToMake, key: str) -> TopicToMake:
    """Return the topic with the reason why its cluster would refuse it, if any."""
    brokers = len(cluster.nodes())
    return replace(
        made,
        problem=refusal_to_replicate(made.replication_factor, brokers, key, made.cluster),
    )


def plan_beats(config: FlowConfig) -> FlowPlan:
    """Return the plan of a flow that copies nothing."""
    with closing(Cluster(config.target_admin)) as target:
        try:
            cluster, topic, partitions, factor, key = _heartbeats(config, target)
            target.describe(())
            if topic in _described(cluster, topic):
                return FlowPlan(config.flow)
            made = TopicToMake(config.flow.target, topic, partitions, factor)
            made = _checked(target, made, key)
            problems = (made.problem,) if made.problem else ()
            return FlowPlan(config.flow, make_internal=(made,), problems=problems)
        except MirrorError as exc:
            return FlowPlan(config.flow, failure=str(exc))


def _configs(desk: _Desk) -> tuple[tuple[ConfigsToChange, ...], list[str]]:
    if not desk.config.mirroring.syncs_topic_configs:
        return (), []
    found: list[ConfigsToChange] = []
    left: list[str] = []
    for plans, unread in plan_topic_configs(desk.config, desk.source, desk.target):
        left += unread
        found += [ConfigsToChange(remote, tuple(changes)) for remote, changes in plans.items()]
    return tuple(found), left


def _partitions(
    desk: _Desk, selected: Mapping[str, Topic], remotes: RemotePlan
) -> tuple[tuple[PartitionPlan, ...], list[str], list[str]]:
    """Return where the copy of each partition starts, with problems and notes."""
    config = desk.config
    foreseen = remotes.foresee(desk.existing)
    routes = route_topics(config, selected, foreseen, {}, remotes.refused).routes
    if not routes:
        return (), [], []
    saved = peek_progress(desk.storage, config)
    unmade = [r.remote for r in routes if not _is_there(r, desk.existing)]
    starts = plan_starts(config, routes, saved, desk.source, desk.target, unmade=unmade)
    starts, problems = _settled(desk, starts, unmade, is_first=not saved)
    partitions = [route.source for route in routes]
    firsts = patiently(lambda: list_offsets(desk.source, partitions, EARLIEST))
    tops = ends = patiently(lambda: list_offsets(desk.source, partitions, LATEST))
    if config.reading.committed_only:
        ends = patiently(lambda: list_offsets(desk.source, partitions, LATEST, committed_only=True))
    sizes: _Offsets = {}
    notes = []
    try:
        sizes = patiently(lambda: partition_sizes(desk.source, partitions))
    except KafkaFault as exc:
        notes.append(f"no bytes can be told, because {exc}")
    is_heartbeats = naming_of(config).is_heartbeats_topic
    found = []
    for start in starts:
        source = start.route.source
        upstream = start.position.upstream
        loss = None
        if not start.barred:  # else the position is in a topic that is gone
            loss = find_loss(source, upstream, firsts[source], tops[source])
            upstream = upstream if loss is None else loss.resume
        lost = start.loss or (loss.reason if loss else None)
        if start.barred:
            lost = f"{lost}; {start.advice}"
        found.append(
            PartitionPlan(
                source=source,
                remote=start.route.remote,
                origin=start.origin,
                upstream=upstream,
                end=ends[source],
                backlog=count_backlog(upstream, firsts[source], ends[source], sizes.get(source)),
                loss=lost,
                blocked=start.barred
                or (loss is not None and not config.copying.goes_on_after_loss),
                is_heartbeats=is_heartbeats(source.topic),
            )
        )
    problems += _strangers(config, starts)
    return tuple(sorted(found, key=lambda p: p.source)), problems, notes


def _settled(
    desk: _Desk, starts: Sequence[Start], unmade: Collection[TopicPartition], *, is_first: bool
) -> tuple[list[Start], list[str]]:
    """Return where partitions start after a MirrorMaker 2, and what would prevent the flow from starting."""
    empty = set(unmade)
    lost = [s for s in starts if s.origin is StartOrigin.TAKEN_OVER and s.route.remote in empty]
    others = [start for start in starts if start not in lost]
    try:
        # A broker that is asked for a group that does not exist creates the topic that holds groups.
        if desk.config.worker.get("group.id") in list_groups(desk.storage):
            check_stopped(desk.config, desk.storage, desk.target)
        settled = settle_starts(desk.config, others, desk.source, desk.target, is_first=is_first)
    except StillMirrored as exc:
        return list(starts), [str(exc).rstrip(".")]
    waiting = [s for s in others if s.route.source in settled.waits]
    return [*settled.starts, *waiting, *lost], sorted(settled.waits.values())


def _is_there(route: Route, existing: Mapping[str, Topic]) -> bool:
    topic = existing.get(route.remote.topic)
    return topic is not None and route.remote.index < len(topic.leaders)


def _strangers(config: FlowConfig, starts: Iterable[Start]) -> list[str]:
    """Return a sentence for each remote topic that holds what this flow did not write."""
    held: dict[str, int] = {}
    for start in starts:
        if start.origin is StartOrigin.FRESH and start.position.downstream > 0:
            topic = start.route.remote.topic
            held[topic] = held.get(topic, 0) + start.position.downstream
    return [
        f"{topic} on {config.flow.target} holds {count} offsets, and {config.flow} has no position of "
        "it: it is the target's own, or positions were lost. Its records stay, and copies follow them"
        for topic, count in sorted(held.items())
    ]


def _groups(desk: _Desk) -> tuple[tuple[GroupPlan, ...], list[str]]:
    if not desk.config.emits_checkpoints:
        return (), []
    with closing(Checkpointer(desk.config, desk.source, desk.target)) as checkpointer:
        survey = checkpointer.survey()
        outlook = checkpointer.preview(survey.taken)
    left = {**survey.passed_over, **survey.unread}
    found = [GroupPlan(group, passed_over=why) for group, why in left.items()]
    news: dict[str, int] = {}
    for checkpoint in outlook.news:
        news[checkpoint.group] = news.get(checkpoint.group, 0) + 1
    moves: dict[str, int] = {}
    alone: dict[str, str] = {}
    if desk.config.syncs_groups and not _has_groups(desk):
        moves = {group: len(places) for group, places in outlook.standing.items()}
    elif desk.config.syncs_groups:
        sync = plan_group_sync(desk.target, outlook.standing)
        moves = {group: len(behind) for group, behind in sync.behind.items()}
        alone = {**sync.skipped, **sync.unread}
    else:
        alone = dict.fromkeys(survey.taken, "sync.group.offsets.enabled=false")
    for group in survey.taken:
        places = outlook.standing.get(group, {})
        waits = None if places else "nothing of what it reads is copied yet"
        found.append(
            GroupPlan(
                group,
                partitions=len(places),
                ahead=outlook.ahead.get(group, 0),
                checkpoints=news.get(group, 0),
                moves=moves.get(group, 0),
                left_alone=waits or alone.get(group),
            )
        )
    return tuple(sorted(found, key=lambda g: g.group)), list(outlook.troubles)


def _has_groups(desk: _Desk) -> bool:
    """Whether the target ever had a group; one without any would create a topic when asked for one."""
    return _GROUPS_TOPIC in desk.existing or bool(list_groups(desk.target))
