"""`plan`: what a mirror would do as a whole. Reads only; creates and changes nothing."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from heliograph.config.flow import FlowConfig
from heliograph.config.naming import naming_of, replicates_of
from heliograph.plan.flow import plan_beats, plan_flow
from heliograph.plan.judgement import Clash, Loop, Origin, Place, find_clashes, find_loops
from heliograph.plan.report import MEASURED_BYTES_PER_SECOND, MirrorPlan


def plan_mirror(
    flows: Sequence[FlowConfig],
    *,
    others: Sequence[FlowConfig] = (),
    beating: Sequence[FlowConfig] = (),
    warnings: Iterable[str] = (),
    bytes_per_second: int = MEASURED_BYTES_PER_SECOND,
) -> MirrorPlan:
    """Return what these flows would do.

    `others` run next to them and count only for replication loops; `beating` flows copy nothing and only
    create a heartbeats topic.
    """
    plans = []
    topics: dict[str, set[str]] = {}
    for config in flows:
        found, names = plan_flow(config)
        plans.append(found)
        topics.setdefault(config.flow.source, set()).update(names)
    plans += [plan_beats(config) for config in beating]
    return MirrorPlan(
        flows=tuple(plans),
        loops=tuple(_loops([*flows, *others], topics)),
        clashes=tuple(_clashes(flows, topics)),
        warnings=tuple(warnings),
        bytes_per_second=bytes_per_second,
    )


def _loops(flows: Sequence[FlowConfig], topics: Mapping[str, Iterable[str]]) -> list[Loop]:
    leaving: dict[str, list[FlowConfig]] = {}
    for config in flows:
        leaving.setdefault(config.flow.source, []).append(config)
    copied = {config.flow: replicates_of(config) for config in flows}
    naming = {config.flow: naming_of(config) for config in flows}

    def follow(place: Place) -> Iterator[Place]:
        for config in leaving.get(place.cluster, ()):
            if copied[config.flow](place.topic):
                remote = naming[config.flow].format_remote_topic(place.cluster, place.topic)
                yield Place(config.flow.target, remote)

    starts = [Place(cluster, topic) for cluster in topics for topic in sorted(topics[cluster])]
    return find_loops(starts, follow, longest=2 * len(flows) + 1)


def _clashes(flows: Sequence[FlowConfig], topics: Mapping[str, Iterable[str]]) -> list[Clash]:
    def copies() -> Iterator[tuple[Origin, Place]]:
        for config in flows:
            copied, naming, flow = replicates_of(config), naming_of(config), config.flow
            for topic in sorted(topics.get(flow.source, ())):
                if copied(topic):
                    remote = naming.format_remote_topic(flow.source, topic)
                    yield Origin(flow, topic), Place(flow.target, remote)

    return find_clashes(copies())
