"""Settings and ACLs of remote topics follow those of the source, on real brokers."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourcePatternType,
    ResourceType,
)

from heliograph.admin import configs
from heliograph.config.flow import FlowConfig
from heliograph.config.mirror import load_mirror
from heliograph.embedded.cluster import start_cluster
from heliograph.errors import KafkaFault
from heliograph.flows import topic_configs
from heliograph.flows.source import refresh_topics
from heliograph.flows.topic_acls import sync_topic_acls
from heliograph.flows.topic_configs import sync_topic_configs
from heliograph.kafka.cluster import Cluster
from lab.clusters import LiveCluster, eventually, start_live_cluster, unique_name
from lab.mirrors import flow_properties, unique_alias

pytestmark = pytest.mark.broker

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
MIN_ISR = "min.insync.replicas"  # current brokers have a default of the cluster's for it
ALTER = "IncrementalAlterConfigsRequest"


class Noting(Cluster):
    """A cluster that notes the requests sent to it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.requests: list[str] = []

    def call(self, request: Any, node: int | None = None, newest: int | None = None) -> Any:
        self.requests.append(request.name)
        return super().call(request, node, newest)


class Elderly(Noting):
    """A cluster whose brokers have never heard of incremental changes."""

    def call(self, request: Any, node: int | None = None, newest: int | None = None) -> Any:
        if request.name == ALTER:
            raise KafkaFault(f"call {request.name}", "UNSUPPORTED_VERSION", False)
        return super().call(request, node, newest)


class Pair:
    """One flow between two clusters, as its schedule calls it."""

    def __init__(
        self, folder: Path, source: LiveCluster, target: LiveCluster, topics: str, **extra: str
    ) -> None:
        self.alias, other = unique_alias(), unique_alias("B")
        origin, remote = (self.alias, source.bootstrap), (other, target.bootstrap)
        file = folder / f"{self.alias}.properties"
        # As in MM2, `use.defaults.from` counts only with the flow's prefix.
        defaults = {f"{self.alias}->{other}.use.defaults.from": extra.pop("defaults", "target")}
        properties = flow_properties(origin, remote, topics, **extra) | defaults
        file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))
        self.config: FlowConfig = load_mirror(file).flows[0]
        self.source = Noting(self.config.source_admin)
        self.target = Noting(self.config.target_admin)

    def remote(self, topic: str) -> str:
        return f"{self.alias}.{topic}"

    def sync_configs(self) -> list[str]:
        return sync_topic_configs(self.config, self.source, self.target)

    def sync_acls(self) -> list[str]:
        return sync_topic_acls(self.config, self.source, self.target)


class Pairs:
    """Makes pairs, and closes them when the test is over."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack

    def __call__(self, source: LiveCluster, target: LiveCluster, topics: str, **extra: str) -> Pair:
        pair = Pair(self._folder, source, target, topics, **extra)
        self._stack.enter_context(closing(pair.source))
        self._stack.enter_context(closing(pair.target))
        return pair


@pytest.fixture
def pairs(tmp_path: Path) -> Iterator[Pairs]:
    with ExitStack() as stack:
        yield Pairs(tmp_path, stack)


@contextmanager
def running(live: LiveCluster) -> Iterator[LiveCluster]:
    try:
        yield live
    finally:
        live.cluster.wipe()


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """A cluster without an authorizer: its ACL API is switched off."""
    folder = tmp_path_factory.mktemp("bare")
    with running(LiveCluster(start_cluster("bare", data_root=folder))) as live:
        yield live


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[LiveCluster]:
    """A cluster where ACLs count for us too."""
    config = {"super.users": "User:nobody-here"}
    with running(start_live_cluster("guarded", tmp_path, config=config)) as live:
        yield live


def own_configs(live: LiveCluster, topic: str) -> dict[str, str]:
    """Return what is set on the topic itself."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    entries = live.admin.describe_configs([resource])[resource].result(timeout=30)
    set_on_topic = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {name: e.value for name, e in entries.items() if e.source == set_on_topic}


def change(live: LiveCluster, topic: str, **values: str | None) -> None:
    """Set settings of a topic, `retention_ms` being retention.ms; None takes one away."""
    entries = [
        ConfigEntry(
            name.replace("_", "."),
            value,
            incremental_operation=AlterConfigOpType.SET if value else AlterConfigOpType.DELETE,
        )
        for name, value in values.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    live.admin.incremental_alter_configs([resource])[resource].result(timeout=30)
    wanted = {name.replace("_", "."): value for name, value in values.items()}
    eventually(
        lambda: all(own_configs(live, topic).get(name) == value for name, value in wanted.items())
    )


def assert_configs(live: LiveCluster, topic: str, expected: dict[str, str]) -> None:
    eventually(
        lambda: own_configs(live, topic) == expected,
        within=10,
        describe=lambda: f"{topic} has {own_configs(live, topic)} and should have {expected}",
    )


def binding(
    topic: str,
    operation: AclOperation,
    permission: AclPermissionType = AclPermissionType.ALLOW,
    *,
    resource: ResourceType = ResourceType.TOPIC,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    principal: str = "User:reader",
) -> AclBinding:
    return AclBinding(resource, topic, pattern, principal, "*", operation, permission)


def allow(live: LiveCluster, *bindings: AclBinding) -> None:
    for future in live.admin.create_acls(list(bindings)).values():
        future.result(timeout=30)
    wanted = set(bindings)
    eventually(lambda: wanted <= set().union(*(acls(live, b.name) for b in bindings)))


def acls(live: LiveCluster, name: str) -> set[AclBinding]:
    return set(live.admin.describe_acls(_named(name)).result(timeout=30))


def remove(
    live: LiveCluster, name: str, permission: AclPermissionType = AclPermissionType.ANY
) -> None:
    wanted = _named(name, permission)
    live.admin.delete_acls([wanted])[wanted].result(timeout=30)


def _named(name: str, permission: AclPermissionType = AclPermissionType.ANY) -> AclBindingFilter:
    any_pattern, any_operation = ResourcePatternType.ANY, AclOperation.ANY
    return AclBindingFilter(
        ResourceType.ANY, name, any_pattern, None, None, any_operation, permission
    )


def test_settings_of_the_source_are_set_and_excluded_ones_left_alone(
    source: LiveCluster, target: LiveCluster, pairs: Pairs, caplog: pytest.LogCaptureFixture
) -> None:
    topic = source.create_topic(config={"retention.ms": "60000", "delete.retention.ms": "2000"})
    pair = pairs(source, target, topic, config_properties_exclude=f"delete\\\\..*, {MIN_ISR}")
    remote = target.create_topic(
        name=pair.remote(topic), config={"retention.ms": "1", "delete.retention.ms": "3000"}
    )

    with caplog.at_level(logging.INFO):
        assert pair.sync_configs() == []

    assert_configs(target, remote, {"retention.ms": "60000", "delete.retention.ms": "3000"})
    assert f"flow={pair.config.flow} topic={remote} set=retention.ms reset=" in caplog.messages


def test_what_only_the_remote_topic_has_is_reset(
    source: LiveCluster, target: LiveCluster, pairs: Pairs
) -> None:
    topic = source.create_topic()
    pair = pairs(source, target, topic)
    remote = target.create_topic(
        name=pair.remote(topic), config={"segment.bytes": "20000000", "min.insync.replicas": "2"}
    )

    assert pair.sync_configs() == []

    assert_configs(target, remote, {"min.insync.replicas": "2"})


def test_a_setting_taken_away_on_the_source_is_reset(
    source: LiveCluster, target: LiveCluster, pairs: Pairs
) -> None:
    topic = source.create_topic(config={"retention.ms": "60000", "cleanup.policy": "compact"})
    pair = pairs(source, target, topic)
    remote = target.create_topic(name=pair.remote(topic))
    assert pair.sync_configs() == []
    assert_configs(target, remote, {"retention.ms": "60000", "cleanup.policy": "compact"})

    change(source, topic, retention_ms=None)
    assert pair.sync_configs() == []

    assert_configs(target, remote, {"cleanup.policy": "compact"})


def test_defaults_of_the_source_are_set_where_they_are_asked_for(
    source: LiveCluster, target: LiveCluster, pairs: Pairs
) -> None:
    topic = source.create_topic()
    pair = pairs(source, target, topic, defaults="source")
    remote = target.create_topic(name=pair.remote(topic), config={"flush.messages": "7"})

    assert pair.sync_configs() == []

    longest = str(2**63 - 1)
    eventually(lambda: own_configs(target, remote).get("flush.messages") == longest)
    assert own_configs(target, remote)["cleanup.policy"] == "delete"
    assert "min.insync.replicas" not in own_configs(target, remote)


@pytest.mark.parametrize("defaults", ["target", "source"])
def test_a_sync_of_what_is_in_step_writes_nothing(
    source: LiveCluster, target: LiveCluster, pairs: Pairs, defaults: str
) -> None:
    topic = source.create_topic(config={"retention.ms": "60000", "cleanup.policy": "compact"})
    pair = pairs(source, target, topic, defaults=defaults)
    remote = target.create_topic(name=pair.remote(topic))
    pair.sync_configs()
    eventually(lambda: own_configs(target, remote).get("retention.ms") == "60000")
    assert pair.target.requests == ["DescribeConfigsRequest", ALTER]

    assert pair.sync_configs() == []

    assert pair.target.requests.count(ALTER) == 1


def test_a_remote_topic_that_is_not_there_is_passed_over(
    source: LiveCluster, target: LiveCluster, pairs: Pairs
) -> None:
    topic = source.create_topic(config={"retention.ms": "60000"})
    pair = pairs(source, target, topic)

    assert pair.sync_configs() == []

    assert ALTER not in pair.target.requests
    assert pair.remote(topic) not in target.topics()


def test_a_refused_setting_is_told_and_the_others_are_set(
    source: LiveCluster, target: LiveCluster, pairs: Pairs
) -> None:
    start = unique_name()
    settings = {"min.compaction.lag.ms": "5000", "retention.ms": "60000", "segment.ms": "90000"}
    topic = source.create_topic(name=f"{start}-a", config=settings)
    fine = source.create_topic(name=f"{start}-b", config={"retention.ms": "70000"})
    pair = pairs(
        source, target, f"{start}.*", config_properties_exclude=f"max.compaction.lag.ms, {MIN_ISR}"
    )
    clash = {"max.compaction.lag.ms": "1000"}
    remote = target.create_topic(name=pair.remote(topic), config=clash)
    target.create_topic(name=pair.remote(fine))

    (told,) = pair.sync_configs()

    assert f"topic {remote} does not get min.compaction.lag.ms=5000 (INVALID_CONFIG: " in told
    assert told.startswith(f"{pair.config.flow.target}: ")
    assert told.endswith(
        "Change min.compaction.lag.ms on the source, or add it to config.properties.exclude."
    )
    assert_configs(target, remote, {**clash, "retention.ms": "60000", "segment.ms": "90000"})
    assert_configs(target, pair.remote(fine), {"retention.ms": "70000"})

    (again,) = pair.sync_configs()
    assert again == told


def test_many_changes_go_in_several_requests(
    source: LiveCluster, target: LiveCluster, pairs: Pairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_configs, "_TOPICS_PER_REQUEST", 4)
    monkeypatch.setattr(configs, "_CHANGES_PER_REQUEST", 5)
    start = unique_name()
    config = {"retention.ms": "60000", "segment.ms": "90000"}
    pair = pairs(source, target, f"{start}.*")
    for n in range(5):
        topic = source.create_topic(name=f"{start}-{n}", config=config)
        target.create_topic(name=pair.remote(topic))

    assert pair.sync_configs() == []

    for n in range(5):
        assert_configs(target, pair.remote(f"{start}-{n}"), config)
    # Four topics with two changes each, of which five fit: two requests; then the fifth topic.
    describe = "DescribeConfigsRequest"
    assert pair.target.requests == [describe, ALTER, ALTER, describe, ALTER]


def test_settings_are_synced_under_the_same_name_too(
    source: LiveCluster, target: LiveCluster, pairs: Pairs
) -> None:
    topic = source.create_topic(config={"retention.ms": "60000"})
    pair = pairs(source, target, topic, replication_policy_class=IDENTITY)
    target.create_topic(name=topic)

    assert pair.sync_configs() == []

    assert_configs(target, topic, {"retention.ms": "60000"})


def test_brokers_that_cannot_change_single_settings_are_told(
    source: LiveCluster, target: LiveCluster, pairs: Pairs
) -> None:
    topic = source.create_topic(config={"retention.ms": "60000"})
    pair = pairs(source, target, topic)
    target.create_topic(name=pair.remote(topic))

    with closing(Elderly(pair.config.target_admin)) as elderly:
        (told,) = sync_topic_configs(pair.config, pair.source, elderly)

    assert told.startswith(f"{pair.config.flow.target}: its brokers are older than Kafka 2.3")


def test_a_topic_whose_settings_may_not_be_read_or_changed_is_told_alone(
    guarded: LiveCluster, target: LiveCluster, pairs: Pairs
) -> None:
    config = {"retention.ms": "60000", "segment.ms": "90000"}
    topics = [guarded.create_topic(name=f"t-{n}", config=config) for n in range(3)]
    anonymous = "User:ANONYMOUS"
    deny = AclPermissionType.DENY
    there = pairs(guarded, target, "t-.*")
    here = pairs(target, guarded, "u-.*", replication_policy_class=IDENTITY)
    for topic in topics:
        target.create_topic(name=there.remote(topic))
    mirrored = [target.create_topic(name=f"u-{n}", config=config) for n in range(2)]
    for topic in mirrored:
        guarded.create_topic(name=topic)
    allow(
        guarded,
        *(binding(t, AclOperation.ALL, principal=anonymous) for t in ("t-1", "u-1")),
        binding("t-1", AclOperation.DESCRIBE_CONFIGS, deny, principal=anonymous),
        binding("u-1", AclOperation.ALTER_CONFIGS, deny, principal=anonymous),
    )

    (unread,) = there.sync_configs()
    (unchanged,) = here.sync_configs()

    assert unread.startswith(
        f"{there.alias}: cannot read the configuration of topic t-1 (TOPIC_AUTHORIZATION_FAILED"
    )
    assert unread.endswith(f"Allow the mirror's user DESCRIBE_CONFIGS on it on {there.alias}.")
    for topic, expected in (("t-0", config), ("t-1", {}), ("t-2", config)):
        assert_configs(target, there.remote(topic), expected)
    name = here.config.flow.target
    assert unchanged.startswith(f"{name}: topic u-1 does not get ")
    assert unchanged.endswith(f"Allow the mirror's user ALTER_CONFIGS on it on {name}.")
    assert here.target.requests.count(ALTER) == 1
    assert_configs(guarded, "u-0", config)
    assert_configs(guarded, "u-1", {})


def test_a_new_remote_topic_has_the_settings_that_a_sync_would_give_it(
    source: LiveCluster, target: LiveCluster, pairs: Pairs
) -> None:
    topic = source.create_topic(config={"retention.ms": "60000", "delete.retention.ms": "2000"})
    pair = pairs(source, target, topic, config_properties_exclude="delete.*")

    refresh_topics(pair.config, pair.source, pair.target)

    made = {"retention.ms": "60000", MIN_ISR: "1"}
    assert_configs(target, pair.remote(topic), made)
    assert pair.sync_configs() == []
    assert ALTER not in pair.target.requests


def test_a_new_remote_topic_has_the_defaults_of_the_source_where_they_are_asked_for(
    source: LiveCluster, target: LiveCluster, pairs: Pairs
) -> None:
    topic = source.create_topic(config={"retention.ms": "60000"})
    pair = pairs(source, target, topic, defaults="source")

    refresh_topics(pair.config, pair.source, pair.target)

    eventually(lambda: own_configs(target, pair.remote(topic)).get("cleanup.policy") == "delete")
    made = own_configs(target, pair.remote(topic))
    assert made["retention.ms"] == "60000"
    assert MIN_ISR not in made
    assert pair.sync_configs() == []
    assert ALTER not in pair.target.requests


def test_acls_are_filtered_renamed_and_made_once(
    source: LiveCluster, target: LiveCluster, pairs: Pairs, caplog: pytest.LogCaptureFixture
) -> None:
    topic = unique_name()
    deny = AclPermissionType.DENY
    allow(
        source,
        binding(topic, AclOperation.ALL),
        binding(topic, AclOperation.WRITE),
        binding(topic, AclOperation.DESCRIBE_CONFIGS, principal="User:ops"),
        binding(topic, AclOperation.ALL, deny, principal="User:intruder"),
        binding(topic, AclOperation.WRITE, deny, principal="User:guest"),
        binding(topic, AclOperation.READ, pattern=ResourcePatternType.PREFIXED),
        binding(topic, AclOperation.READ, resource=ResourceType.GROUP),
        binding(f"{topic}-private", AclOperation.READ),
        binding(f"__{topic}", AclOperation.READ),
    )
    pair = pairs(source, target, f"(__)?{topic}", topics_exclude="none")
    remote = pair.remote(topic)

    with caplog.at_level(logging.INFO):
        assert pair.sync_acls() == []

    expected = {
        binding(remote, AclOperation.READ),
        binding(remote, AclOperation.DESCRIBE_CONFIGS, principal="User:ops"),
        binding(remote, AclOperation.ALL, deny, principal="User:intruder"),
        binding(remote, AclOperation.WRITE, deny, principal="User:guest"),
    }
    eventually(lambda: acls(target, remote) == expected, 10, lambda: acls(target, remote))
    for other in (f"{topic}-private", f"__{topic}"):
        assert acls(target, pair.remote(other)) == set()
    assert f"flow={pair.config.flow} topic={remote} created acls=4" in caplog.messages

    assert pair.sync_acls() == []
    assert pair.target.requests.count("CreateAclsRequest") == 1


def test_an_acl_removed_on_the_source_stays_on_the_target(
    source: LiveCluster, target: LiveCluster, pairs: Pairs
) -> None:
    topic = unique_name()
    allow(source, binding(topic, AclOperation.READ))
    pair = pairs(source, target, topic)
    assert pair.sync_acls() == []
    copied = {binding(pair.remote(topic), AclOperation.READ)}
    eventually(lambda: acls(target, pair.remote(topic)) == copied)

    remove(source, topic)
    eventually(lambda: acls(source, topic) == set())
    assert pair.sync_acls() == []

    assert acls(target, pair.remote(topic)) == copied


def test_a_source_without_an_authorizer_is_told_and_the_target_left_alone(
    bare: LiveCluster, target: LiveCluster, pairs: Pairs
) -> None:
    pair = pairs(bare, target, ".*")

    (told,) = pair.sync_acls()

    assert told.startswith(f"{pair.alias}: has no authorizer")
    assert "Set sync.topic.acls.enabled=false" in told
    assert pair.target.requests == []


def test_a_target_without_an_authorizer_is_told(
    source: LiveCluster, bare: LiveCluster, pairs: Pairs
) -> None:
    topic = unique_name()
    allow(source, binding(topic, AclOperation.READ))
    pair = pairs(source, bare, topic)

    (told,) = pair.sync_acls()

    assert told.startswith(f"{pair.config.flow.target}: has no authorizer")
    assert pair.target.requests == ["DescribeAclsRequest"]


def test_acls_that_may_not_be_read_or_made_are_told_with_the_permission_that_lacks(
    source: LiveCluster, guarded: LiveCluster, pairs: Pairs
) -> None:
    topic = unique_name()
    allow(source, binding(topic, AclOperation.READ), binding(topic, AclOperation.DESCRIBE))
    pair = pairs(source, guarded, topic)
    name = pair.config.flow.target
    everything, reading, making = (
        binding(
            "kafka-cluster",
            operation,
            permission,
            resource=ResourceType.BROKER,
            principal="User:ANONYMOUS",
        )
        for operation, permission in (
            (AclOperation.ALL, AclPermissionType.ALLOW),
            (AclOperation.DESCRIBE, AclPermissionType.DENY),
            (AclOperation.ALTER, AclPermissionType.DENY),
        )
    )

    allow(guarded, everything)
    guarded.admin.create_acls([reading])[reading].result(timeout=30)
    # librdkafka shows what it is denied as nothing.
    eventually(lambda: not acls(guarded, "kafka-cluster"))
    (unread,) = pair.sync_acls()
    remove(guarded, "kafka-cluster", AclPermissionType.DENY)
    eventually(lambda: acls(guarded, "kafka-cluster"))
    allow(guarded, making)
    (unmade,) = pair.sync_acls()

    assert unread == (
        f"{name}: cannot describe the topic ACLs (CLUSTER_AUTHORIZATION_FAILED). "
        "Allow the mirror's user DESCRIBE on the cluster, or set sync.topic.acls.enabled=false."
    )
    assert unmade.startswith(f"{name}: cannot create 2 ACLs, the first of them ALLOW DESCRIBE on ")
    assert "(CLUSTER_AUTHORIZATION_FAILED" in unmade
    assert "Allow the mirror's user ALTER on the cluster" in unmade
