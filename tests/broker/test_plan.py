"""What `heliograph plan` says is what then happens, and it does nothing itself; on real brokers."""

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourcePatternType,
    ResourceType,
)

from heliograph.admin.configs import topic_configs
from heliograph.config.flow import FlowConfig
from heliograph.config.mirror import load_mirror
from heliograph.flows.source import refresh_topics
from heliograph.flows.starts import Origin
from heliograph.flows.topic_acls import sync_topic_acls
from heliograph.flows.topic_configs import sync_topic_configs
from heliograph.groups.admin import Committed, commit_offsets, fetch_committed
from heliograph.kafka.cluster import Cluster
from heliograph.model import TopicPartition
from heliograph.plan.mirror import plan_mirror
from heliograph.plan.report import FlowPlan
from lab.clusters import LiveCluster, Outgoing, eventually, unique_name
from lab.commands import run_command
from lab.mirrors import (
    Mirror,
    assert_copied,
    flow_properties,
    mesh_properties,
    unique_alias,
)

pytestmark = pytest.mark.broker

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


def write(folder: Path, properties: dict[str, str]) -> Path:
    file = folder / "mm2.properties"
    file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))
    return file


def one_flow(
    folder: Path, source: LiveCluster, target: LiveCluster, topics: str, **extra: str
) -> FlowConfig:
    here, there = (unique_alias(), source.bootstrap), (unique_alias("B"), target.bootstrap)
    properties = flow_properties(here, there, topics, **{"groups": f"{topics}.*", **extra})
    return load_mirror(write(folder, properties)).flows[0]


def plan_of(config: FlowConfig) -> FlowPlan:
    (found,) = plan_mirror([config]).flows
    assert found.failure is None
    return found


def ask(*arguments: str) -> tuple[int, str, str]:
    """Run the command as a user does."""
    done = run_command("plan", *arguments)
    return done.returncode, done.stdout, done.stderr


def ask_json(*arguments: str) -> tuple[int, dict[str, Any]]:
    code, out, err = ask(*arguments, "--json")
    assert out, err
    return code, json.loads(out)


def test_what_is_planned_is_what_a_refresh_makes(
    source: LiveCluster, target: LiveCluster, tmp_path: Path
) -> None:
    prefix = unique_name()
    orders = source.create_topic(3, {"retention.ms": "7200000"}, name=f"{prefix}.orders")
    secret = source.create_topic(name=f"{prefix}.secret")
    source.produce(orders, [b"x" * 100] * 30)
    reader = AclBinding(
        ResourceType.TOPIC,
        orders,
        ResourcePatternType.LITERAL,
        "User:reader",
        "*",
        AclOperation.ALL,
        AclPermissionType.ALLOW,
    )
    source.admin.create_acls([reader])[reader].result(timeout=30)
    config = one_flow(tmp_path, source, target, rf"{prefix}\\..*", topics_exclude=".*secret")
    before = target.topics()
    found = plan_of(config)
    assert target.topics() == before, "a plan makes nothing"

    (made,) = found.make
    remote = f"{config.flow.source}.{orders}"
    assert (made.topic, made.remote_topic, made.partitions) == (orders, remote, 3)
    assert made.configs["retention.ms"] == "7200000"
    assert [skip.reason for skip in found.skip if skip.topic == secret] == [
        "topics.exclude has .*secret"
    ]
    assert {skip.topic for skip in found.skip if skip.reason == "internal"} >= {
        topic for topic in source.topics() if topic.startswith("__")
    }
    assert [str(acl) for acl in found.acls] == [f"ALLOW READ on {remote} for User:reader from *"]
    assert found.offsets == 30
    assert found.bytes is not None
    assert found.bytes >= 3000
    assert not found.bytes_are_estimated
    assert found.origins == {Origin.FRESH: 3}

    with closing(Cluster(config.source_admin)) as here, closing(Cluster(config.target_admin)) as to:
        assert refresh_topics(config, here, to).refused == ()
        assert sync_topic_configs(config, here, to) == []
        assert sync_topic_acls(config, here, to) == []
        assert target.partition_count(remote) == 3
        made_with = topic_configs(to, [remote], ["retention.ms"])[remote]
        assert made_with == {"retention.ms": "7200000"}
    again = plan_of(config)
    assert (again.make, again.grow, again.configs, again.acls) == ((), (), (), ())
    assert again.offsets == 30, "nothing was copied by that"


def test_growth_and_changed_settings_are_told_before_they_happen(
    source: LiveCluster, target: LiveCluster, tmp_path: Path
) -> None:
    topic = source.create_topic(2)
    config = one_flow(tmp_path, source, target, topic)
    with closing(Cluster(config.source_admin)) as here, closing(Cluster(config.target_admin)) as to:
        refresh_topics(config, here, to)
        source.admin.create_partitions([NewPartitions(topic, 5)])[topic].result(timeout=30)
        eventually(lambda: source.partition_count(topic) == 5)
        entry = ConfigEntry("retention.ms", "3600000", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        source.admin.incremental_alter_configs([resource])[resource].result(timeout=30)
        remote = f"{config.flow.source}.{topic}"

        found = plan_of(config)
        (grown,) = found.grow
        assert (grown.remote_topic, grown.partitions_now, grown.partitions) == (remote, 2, 5)
        ((changed, changes),) = [(c.remote_topic, c.changes) for c in found.configs]
        assert changed == remote
        assert list(map(str, changes)) == ["retention.ms=3600000"]
        assert len(found.partitions) == 5, "also of those that are not made yet"

        refresh_topics(config, here, to)
        sync_topic_configs(config, here, to)
    assert target.partition_count(remote) == 5
    again = plan_of(config)
    assert (again.make, again.grow, again.configs) == ((), (), ())


def test_a_mirror_that_has_copied_all_has_nothing_to_do(
    source: LiveCluster, target: LiveCluster, tmp_path: Path
) -> None:
    prefix = unique_name()
    topic = source.create_topic(2, name=f"{prefix}.t")
    source.produce(topic, [b"one"] * 50)
    group = f"{prefix}-group"
    here, there = unique_alias(), unique_alias("B")
    properties = flow_properties(
        (here, source.bootstrap),
        (there, target.bootstrap),
        rf"{prefix}\\..*",
        groups=f"{prefix}.*",
        sync_group_offsets_enabled="true",
        emit_checkpoints_interval_seconds="1",
        sync_group_offsets_interval_seconds="1",
    )
    mirror = Mirror(tmp_path, properties)
    remote = f"{here}.{topic}"
    places = {TopicPartition(topic, p): Committed(5, "") for p in range(2)}
    with closing(Cluster(load_mirror(mirror.file).flows[0].source_admin)) as cluster:
        assert commit_offsets(cluster, group, places) == {}

    code, first = ask_json(str(mirror.file))
    flow = next(flow for flow in first["flows"] if flow["flow"] == f"{here}->{there}")
    assert code == 1
    assert flow["offsets"] == 50
    assert {made["remote_topic"] for made in flow["make_internal"]} >= {
        f"mm2-offsets.{here}.internal",
        f"mm2-runs.{here}.internal",
        f"{here}.checkpoints.internal",
    }
    waits = [g["left_alone"] for g in flow["groups"] if g["group"] == group]
    assert waits == ["nothing of what it reads is copied yet"]

    with mirror, closing(Cluster(load_mirror(mirror.file).flows[0].target_admin)) as cluster:
        assert_copied(source, topic, target, remote, mirror, within=120)
        eventually(lambda: len(fetch_committed(cluster, [group])[0][group]) == 2, 30, mirror.tail)
    assert {made["remote_topic"] for made in flow["make_internal"]} <= target.topics() | (
        source.topics()
    )

    code, out, _ = ask(str(mirror.file))
    assert (code, out.splitlines()[-1]) == (0, "Nothing to do.")

    source.produce(topic, [Outgoing(b"more", partition=0)] * 7)
    code, later = ask_json(str(mirror.file), "--flow", f"{here}->{there}")
    (flow,) = later["flows"]
    assert code == 1
    assert flow["offsets"] == 7
    assert flow["bytes_are_estimated"]
    assert {p["origin"] for p in flow["partitions"]} == {"resumed"}


def test_loops_and_names_that_two_want_are_told(
    source: LiveCluster, target: LiveCluster, tmp_path: Path
) -> None:
    topic = source.create_topic()
    target.create_topic(name=topic)
    a, b, c = unique_alias("A"), unique_alias("B"), unique_alias("C")
    properties = mesh_properties(
        {a: source.bootstrap, b: target.bootstrap, c: source.bootstrap},
        {f"{a}->{b}": topic, f"{b}->{a}": topic, f"{c}->{b}": topic},
        heartbeats_replication_enabled="false",
        replication_policy_class=IDENTITY,
    )
    code, found = ask_json(str(write(tmp_path, properties)))
    assert code == 1
    ways = [[place["cluster"] for place in loop] for loop in found["loops"]]
    assert [a, b, a] in ways
    (clash,) = found["clashes"]
    assert clash["remote"] == {"cluster": b, "topic": topic}
    assert [origin["flow"] for origin in clash["origins"]] == [f"{a}->{b}", f"{c}->{b}"]


def test_a_topic_of_the_targets_own_is_told(
    source: LiveCluster, target: LiveCluster, tmp_path: Path
) -> None:
    topic = source.create_topic()
    target.create_topic(name=topic)
    target.produce(topic, [b"mine"] * 4)
    config = one_flow(tmp_path, source, target, topic, replication_policy_class=IDENTITY)
    (problem,) = plan_of(config).problems
    assert problem.startswith(f"{topic} on {config.flow.target} holds 4 offsets")


def test_copies_without_a_position_stop_what_would_repeat_them(
    source: LiveCluster, target: LiveCluster, tmp_path: Path
) -> None:
    topic = source.create_topic()
    source.produce(topic, [b"r"] * 4)
    config = one_flow(tmp_path, source, target, topic)
    target.produce(target.create_topic(name=f"{config.flow.source}.{topic}"), [b"r"] * 4)
    found = plan_of(config)
    (partition,) = found.partitions
    assert partition.blocked
    assert partition.origin is Origin.UNTRACKED
    assert "copying it would repeat what is there" in str(partition.loss)
    assert found.has_work


def test_a_topic_that_came_from_the_target_is_left_there(
    source: LiveCluster, target: LiveCluster, tmp_path: Path
) -> None:
    config = one_flow(tmp_path, source, target, ".*")
    topic = source.create_topic(name=f"{config.flow.target}.{unique_name()}")
    skipped = {skip.topic: skip.reason for skip in plan_of(config).skip}
    assert skipped[topic] == "it came from the target"


def test_more_replicas_than_brokers_are_a_problem(
    source: LiveCluster, target: LiveCluster, tmp_path: Path
) -> None:
    topic = source.create_topic()
    config = one_flow(tmp_path, source, target, topic)
    config = replace(config, mirroring=config.mirroring.replaced(replication_factor=3))
    found = plan_of(config)
    assert found.problems == (
        f"replication.factor=3, and {config.flow.target} has 1 broker; set it to 1 or add brokers",
    )
    with closing(Cluster(config.source_admin)) as here, closing(Cluster(config.target_admin)) as to:
        (refusal,) = refresh_topics(config, here, to).refused
    assert "INVALID_REPLICATION_FACTOR" in refusal


def test_a_group_is_told_apart_by_why_it_gets_no_checkpoint(
    source: LiveCluster, target: LiveCluster, tmp_path: Path
) -> None:
    topic = source.create_topic()
    other = source.create_topic()
    config = one_flow(
        tmp_path, source, target, topic, groups=f"{topic}.*", groups_exclude=".*-excluded"
    )
    groups = {
        f"{topic}-{name}": where
        for name, where in (("taken", topic), ("excluded", topic), ("elsewhere", other))
    }
    with closing(Cluster(config.source_admin)) as here:
        for group, where in groups.items():
            commit_offsets(here, group, {TopicPartition(where, 0): Committed(0, "")})
    found = {g.group: g.passed_over for g in plan_of(config).groups if g.group in groups}
    assert found == {
        f"{topic}-taken": None,
        f"{topic}-excluded": "groups.exclude has .*-excluded",
        f"{topic}-elsewhere": "it committed nothing that this flow copies",
    }


def test_a_cluster_that_cannot_be_reached_is_exit_code_3(
    source: LiveCluster, tmp_path: Path
) -> None:
    nowhere = "127.0.0.1:1"
    properties = flow_properties(("A", source.bootstrap), ("B", nowhere), "t")
    code, out, _ = ask(str(write(tmp_path, properties)))
    assert code == 3
    assert "cannot be told: B: no broker answers at 127.0.0.1:1" in out


def test_wrong_use_is_exit_code_2(source: LiveCluster, tmp_path: Path) -> None:
    properties = flow_properties(("A", source.bootstrap), ("B", source.bootstrap), "t")
    file = str(write(tmp_path, properties))
    assert ask(file, "--flow", "B->Z")[0] == 2
    assert ask(file, "--bytes-per-second", "0")[0] == 2
    assert ask(str(tmp_path / "none"))[0] == 2
