"""Fail-over and fail-back without a mirror at work: what it left behind is made by hand, on real brokers."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

import pytest

from heliograph.client import MirrorClient
from heliograph.config.flow import FlowConfig
from heliograph.config.mirror import load_mirror
from heliograph.config.naming import naming_of
from heliograph.drill.rehearsal import run_drill
from heliograph.drill.steps import Silence
from heliograph.errors import ConfigError, FlowHeld, KafkaFault
from heliograph.failover import failback as module
from heliograph.failover.copy import complete_copies, read_records
from heliograph.failover.explain import explain_group
from heliograph.failover.failback import Failback, TailAction
from heliograph.failover.failover import Refused, carry_out, plan_failover
from heliograph.groups.admin import Committed, commit_offsets, fetch_committed
from heliograph.kafka.cluster import Cluster
from heliograph.model import Position, TopicPartition
from heliograph.policy.naming import holds_topic
from heliograph.saved.holds import HoldStore, LastHold
from heliograph.saved.progress import open_progress
from heliograph.saved.runs import open_runs
from heliograph.wire.connect_records import SourceOffset
from heliograph.wire.hold_records import Phase
from heliograph.wire.records import RawRecord
from lab.clusters import LiveCluster, Outgoing, eventually, unique_name
from lab.mirrors import flow_properties, unique_alias

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
WRITTEN = 50
COPIED = 40
SAVED = 33  # what the flow had saved when it died; the target holds more


class Scene:
    """A flow that copied 40 of 50 records of each of two partitions, and a group that read 20."""

    def __init__(
        self, source: LiveCluster, target: LiveCluster, folder: Path, *, one_name: bool = False
    ) -> None:
        self.source, self.target = source, target
        self.topic = source.create_topic(2)
        self.alias = unique_alias()
        self.remote = self.topic if one_name else f"{self.alias}.{self.topic}"
        self.group = unique_name()
        target.create_topic(2, name=self.remote)
        file = folder / "mm2.properties"
        clusters = (self.alias, source.bootstrap), ("B", target.bootstrap)
        written = flow_properties(*clusters, self.topic)
        if one_name:
            written["replication.policy.class"] = IDENTITY
        file.write_text("".join(f"{k} = {v}\n" for k, v in written.items()))
        mirror = load_mirror(file)
        self.config: FlowConfig = mirror.flows[0]
        self.reverse: FlowConfig = mirror.other_flows[0]
        records = [
            Outgoing(b"%d-%d" % (i % 2, i // 2), partition=i % 2) for i in range(2 * WRITTEN)
        ]
        source.produce(self.topic, records)
        self.at_source = Cluster(self.config.source_admin)
        self.at_target = Cluster(self.config.target)
        self._copy()
        at = {TopicPartition(self.topic, i): Committed(20, "note") for i in range(2)}
        assert commit_offsets(self.at_source, self.group, at) == {}

    def _copy(self) -> None:
        ids = self.at_source.describe([self.topic]), self.at_target.describe([self.remote])
        runs = open_runs(self.at_target, self.config)
        runs.load()
        offsets = {}
        for index in range(2):
            partition = TopicPartition(self.topic, index)
            remote = TopicPartition(self.remote, index)
            records = partial(read_records, self.at_source, partition, 0, COPIED)
            complete_copies(self.at_target, remote, 0, records, f"by-hand-{self.alias}-{index}")
            runs.begin(partition, Position(0, 1))  # the marker of the fence is at 0
            runs.add(partition, [(0, 1, SAVED)])
            offsets[partition] = SourceOffset(
                SAVED,
                SAVED + 1,
                str(ids[0][self.topic].topic_id),
                str(ids[1][self.remote].topic_id),
            )
        runs.save()
        store = open_progress(self.at_target, self.config)
        store.load()
        store.save(offsets)

    def failback(self, groups: str | None = None) -> Failback:
        return Failback(self.config, self.reverse, groups)

    def at(self, cluster: Cluster, topic: str) -> list[Committed | None]:
        committed, _ = fetch_committed(cluster, [self.group])
        return [committed[self.group].get(TopicPartition(topic, i)) for i in range(2)]

    def close(self) -> None:
        self.at_source.close()
        self.at_target.close()


@pytest.fixture
def scene(source: LiveCluster, target: LiveCluster, tmp_path: Path) -> Iterator[Scene]:
    with closing(Scene(source, target, tmp_path)) as scene:
        yield scene


@pytest.fixture
def one_name(source: LiveCluster, target: LiveCluster, tmp_path: Path) -> Iterator[Scene]:
    """The same where both sides call the topic the same."""
    with closing(Scene(source, target, tmp_path, one_name=True)) as scene:
        yield scene


def fail_over(scene: Scene) -> None:
    report = carry_out(plan_failover(scene.config, scene.group))
    assert report.moved == {scene.group: 2}


def test_a_fail_over_while_the_source_answers_counts_what_would_be_left_behind(
    scene: Scene,
) -> None:
    plan = plan_failover(scene.config)
    assert plan.behind == 2 * (WRITTEN - COPIED), "what was copied after the last save counts"
    assert any("are not on B yet" in its.sentence for its in plan.objections)
    (move,) = plan.moves
    assert [step.place.offset for step in move.steps if step.place] == [21, 21]
    assert move.missing == 2 * (WRITTEN - COPIED)
    assert move.stale == 40, "without a checkpoint all of it would be read again"


def test_a_fail_over_moves_a_group_to_its_exact_offset_and_holds_the_flow(scene: Scene) -> None:
    fail_over(scene)
    assert scene.at(scene.at_target, scene.remote) == [Committed(21, "note")] * 2
    with pytest.raises(FlowHeld, match="was failed over"):
        HoldStore(scene.at_target, scene.config).check()
    again = plan_failover(scene.config, scene.group)
    assert again.done
    assert again.moves[0].moved


def test_a_group_that_went_on_on_the_target_is_not_taken_back_by_a_second_fail_over(
    scene: Scene,
) -> None:
    fail_over(scene)
    place = TopicPartition(scene.remote, 0)
    commit_offsets(scene.at_target, scene.group, {place: Committed(30, "")})
    carry_out(plan_failover(scene.config, scene.group))
    assert scene.at(scene.at_target, scene.remote)[0] == Committed(30, "")


def test_a_group_that_does_not_exist_is_a_mistake(scene: Scene) -> None:
    with pytest.raises(ConfigError, match=r"no group of .* is called so"):
        plan_failover(scene.config, "nobody")
    with pytest.raises(ConfigError, match="not a regular expression"):
        plan_failover(scene.config, "(")


def test_a_group_is_explained(scene: Scene) -> None:
    told = explain_group(scene.config, scene.group)
    assert told.ready
    unknown = explain_group(scene.config, "nobody")
    assert not unknown.ready
    assert unknown.reasons == (f"{scene.alias} has no group nobody, or it has committed nothing",)


def test_a_flow_that_was_not_failed_over_is_not_failed_back(scene: Scene) -> None:
    with scene.failback() as back, pytest.raises(Refused, match="is not held"):
        back.plan()


def test_what_never_left_the_source_is_listed_and_must_be_decided_about(scene: Scene) -> None:
    fail_over(scene)
    listed = []
    with scene.failback() as back:
        plan = back.plan(
            None, lambda partition, record: listed.append((partition.index, record.offset))
        )
    assert listed == [(i, offset) for i in range(2) for offset in range(COPIED, WRITTEN)]
    assert plan.lost == 20
    assert [(o.forcible, "--tail replay" in o.sentence) for o in plan.objections] == [(False, True)]


def test_replay_returns_the_group_and_lets_the_flow_go_on_where_it_was(scene: Scene) -> None:
    fail_over(scene)
    place = TopicPartition(scene.remote, 1)
    commit_offsets(scene.at_target, scene.group, {place: Committed(COPIED + 1, "all of it")})
    with scene.failback() as back:
        report = back.carry_out(back.plan(TailAction.REPLAY))
    assert report.left == {}
    assert scene.at(scene.at_source, scene.topic) == [
        Committed(20, "note"),
        Committed(COPIED, "all of it"),
    ]
    HoldStore(scene.at_target, scene.config).check()
    saved = open_progress(scene.at_target, scene.config).load()
    assert saved[TopicPartition(scene.topic, 0)].upstream == SAVED, "the flow finds out the rest"


def test_drop_lets_the_flow_and_who_has_read_all_else_go_on_behind_it(scene: Scene) -> None:
    fail_over(scene)
    place = TopicPartition(scene.remote, 1)
    commit_offsets(scene.at_target, scene.group, {place: Committed(COPIED + 1, "")})
    with scene.failback() as back:
        back.carry_out(back.plan(TailAction.DROP))
    home = scene.at(scene.at_source, scene.topic)
    assert [its.offset for its in home if its] == [20, WRITTEN]
    saved = open_progress(scene.at_target, scene.config).load()
    at = saved[TopicPartition(scene.topic, 1)]
    assert (at.upstream, at.downstream) == (WRITTEN, COPIED + 1)


def test_a_quarantine_that_was_interrupted_is_finished_and_holds_each_record_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_over(scene)
    calls = []

    def break_down(*given: object) -> int:
        calls.append(given)
        if len(calls) == 2:
            raise KafkaFault("write", "nothing", retriable=True)
        return complete_copies(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "complete_copies", break_down)
    with scene.failback() as back, pytest.raises(KafkaFault):
        back.carry_out(back.plan(TailAction.QUARANTINE))
    with scene.failback() as back:
        other = back.plan(TailAction.DROP)
        assert any("began with --tail quarantine" in o.sentence for o in other.objections)
        report = back.carry_out(back.plan())
    assert (report.left, report.records) == ({}, WRITTEN - COPIED)
    aside = scene.target.consume(f"mm2-quarantine.{scene.remote}.internal")
    assert [(r.partition, r.value) for r in aside] == [
        (i, b"%d-%d" % (i, n)) for i in range(2) for n in range(COPIED, WRITTEN)
    ]
    with scene.failback() as back, pytest.raises(Refused, match="is not held"):
        back.plan()


def test_what_is_written_after_a_fail_back_began_is_not_dropped_with_the_rest(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_over(scene)

    def break_down(*_: object) -> None:
        raise KafkaFault("commit", "nothing", retriable=True)

    with monkeypatch.context() as broken, scene.failback() as back:
        broken.setattr(module, "move_groups", break_down)
        with pytest.raises(KafkaFault):
            back.carry_out(back.plan(TailAction.DROP))
    scene.source.produce(scene.topic, [Outgoing(b"new", partition=0)])
    with scene.failback() as back:
        plan = back.plan()
        assert plan.lost == 20
        back.carry_out(plan)
    saved = open_progress(scene.at_target, scene.config).load()
    assert saved[TopicPartition(scene.topic, 0)].upstream == WRITTEN


def test_a_group_between_what_was_saved_and_what_was_copied_keeps_its_place_after_a_drop(
    scene: Scene,
) -> None:
    fail_over(scene)
    with scene.failback() as back:
        back.carry_out(back.plan(TailAction.DROP))
    runs = open_runs(scene.at_target, scene.config)
    runs.load()
    runs.add(TopicPartition(scene.topic, 0), [(WRITTEN, COPIED + 1, 1)])  # as the flow goes on
    runs.save()
    with closing(MirrorClient(scene.target.bootstrap)) as client:
        found = [
            client.exact_offset(scene.topic, 0, at, remote_cluster=scene.alias)
            for at in (SAVED + 2, COPIED - 1, WRITTEN)
        ]
    assert found == [SAVED + 3, COPIED, COPIED + 1]


def test_a_group_of_the_target_alone_does_not_go_anywhere(scene: Scene) -> None:
    fail_over(scene)
    place = TopicPartition(scene.remote, 0)
    commit_offsets(scene.at_target, f"{scene.group}-local", {place: Committed(5, "")})
    with scene.failback() as back:
        assert [move.group for move in back.plan().moves] == [scene.group]
    with scene.failback(f"{scene.group}.*") as back:
        assert len(back.plan().moves) == 2


def test_a_source_that_lacks_what_was_copied_is_no_place_to_return_to(scene: Scene) -> None:
    fail_over(scene)
    scene.source.admin.delete_topics([scene.topic])[scene.topic].result(30)
    eventually(lambda: scene.topic not in scene.source.topics())
    scene.source.create_topic(2, name=scene.topic)
    with scene.failback() as back:
        plan = back.plan(TailAction.REPLAY)
    assert [o.forcible for o in plan.objections][:1] == [False]
    assert "made anew" in plan.objections[0].sentence


def test_a_hold_outlives_its_topic_and_not_its_release(scene: Scene, target: LiveCluster) -> None:
    fail_over(scene)
    topic = holds_topic(naming_of(scene.config), scene.config.flow.source)
    last = LastHold()
    held = HoldStore(scene.at_target, scene.config, last).read()
    assert held is not None
    target.admin.delete_topics([topic])[topic].result(30)

    assert eventually(lambda: HoldStore(scene.at_target, scene.config, last).read()) == held
    assert HoldStore(scene.at_target, scene.config).read() == held, "another driver finds it, too"

    HoldStore(scene.at_target, scene.config).release()
    assert HoldStore(scene.at_target, scene.config, last).read() is None
    target.admin.delete_topics([topic])[topic].result(30)
    eventually(lambda: topic not in scene.at_target.describe([topic]))
    assert HoldStore(scene.at_target, scene.config, last).read() is None


def test_a_flow_on_its_way_back_is_not_failed_over(scene: Scene) -> None:
    fail_over(scene)
    holds = HoldStore(scene.at_target, scene.config)
    held = holds.read()
    assert held is not None
    holds.write(replace(held, phase=Phase.REVERSED))
    with pytest.raises(Refused, match="was turned round"):
        plan_failover(scene.config)
    holds.write(replace(held, phase=Phase.RETURNING))
    with pytest.raises(Refused, match="begun and not finished"):
        plan_failover(scene.config)


def test_under_one_name_a_replay_that_was_interrupted_leaves_each_record_once(
    one_name: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = one_name
    fail_over(scene)

    def break_down(
        target: Cluster,
        place: TopicPartition,
        start: int,
        originals: Callable[[], Iterator[RawRecord]],
        writer: str,
    ) -> int:
        complete_copies(target, place, start, lambda: islice(originals(), 4), writer)
        raise KafkaFault("write", "nothing", retriable=True)

    with monkeypatch.context() as broken, scene.failback() as back:
        broken.setattr(module, "complete_copies", break_down)
        with pytest.raises(KafkaFault):
            back.carry_out(back.plan(TailAction.REPLAY))
    with scene.failback() as back:
        report = back.carry_out(back.plan())
    assert report.records == 2 * (WRITTEN - COPIED) - 4
    assert [r.value for r in scene.target.consume(scene.topic)] == [
        b"%d-%d" % (i, n) for i in range(2) for n in range(WRITTEN)
    ]
    assert "let it read on on B" in report.left[scene.group], "it would read the tail twice"
    saved = open_progress(scene.at_source, scene.reverse).load()
    begins = [saved[TopicPartition(scene.topic, i)] for i in range(2)]
    assert [(at.upstream, at.downstream) for at in begins] == [(COPIED + 1, WRITTEN)] * 2


def test_a_flow_is_not_turned_round_while_its_source_is_written_to(one_name: Scene) -> None:
    scene = one_name
    fail_over(scene)
    with scene.failback() as back:
        plan = back.plan(TailAction.DROP)
        scene.source.produce(scene.topic, [Outgoing(b"late", partition=1)])
        with pytest.raises(Refused, match="still written to"):
            back.carry_out(plan)


def test_what_was_placed_by_key_is_neither_translated_nor_taken_for_lost(
    source: LiveCluster, target: LiveCluster, tmp_path: Path
) -> None:
    topic, alias, group = source.create_topic(2), unique_alias(), unique_name()
    target.create_topic(3, name=f"{alias}.{topic}")
    source.produce(topic, [Outgoing(b"v", partition=0)])
    file = tmp_path / "mm2.properties"
    clusters = (alias, source.bootstrap), ("B", target.bootstrap)
    written = flow_properties(*clusters, topic, target_partitions="target")
    file.write_text("".join(f"{k} = {v}\n" for k, v in written.items()))
    config = load_mirror(file).flows[0]
    with closing(Cluster(config.source_admin)) as cluster:
        commit_offsets(cluster, group, {TopicPartition(topic, 0): Committed(1, "")})
    plan = plan_failover(config, group)
    assert plan.behind == 0
    assert "placed by key" in (plan.moves[0].blocked[0].reason or "")
    assert len(plan.view.ends) == 3, "all of them are fenced"


def test_a_group_that_read_what_came_from_the_target_goes_on_there_and_can_be_rehearsed(
    scene: Scene,
) -> None:
    own = scene.target.create_topic(1)
    came = scene.source.create_topic(1, name=f"B.{own}")
    back = open_runs(scene.at_source, scene.reverse)
    back.load()
    back.begin(TopicPartition(own, 0), Position(0, 5))
    back.add(TopicPartition(own, 0), [(0, 5, 30)])
    back.save()
    at = {TopicPartition(came, 0): Committed(15, "")}
    commit_offsets(scene.at_source, scene.group, at)
    (move,) = plan_failover(scene.config, scene.group).moves
    places = {str(step.place.partition): step.place.offset for step in move.steps if step.place}
    assert places == {f"{own}-0": 10, f"{scene.remote}-0": 21, f"{scene.remote}-1": 21}
    drill = run_drill(scene.config, scene.group, 100, "one", Silence())
    assert drill.ok
    assert [group.read for group in drill.groups] == [2 * (COPIED - 20)]
