from datetime import timedelta
from pathlib import Path

import pytest

from heliograph.config.fields import Part
from heliograph.config.flow import StorageTopic
from heliograph.config.mirror import MirrorConfig, load_mirror
from heliograph.config.settings_connector import DEFAULT_POLICY, IDENTITY_POLICY
from heliograph.errors import ConfigError
from heliograph.model import Flow

SEEDS = Path(__file__).parent / "seeds"
TWO = "clusters=A,B\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1\n"
ONE_FLOW = TWO + "A->B.enabled=true\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("mm2.properties")


def load(file: Path, text: str, **environment: str) -> MirrorConfig:
    file.write_text(text)
    return load_mirror(file, environment)


def mistake(file: Path, text: str, **environment: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(file, text, **environment)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "flows", "warnings"),
    [
        ("000-active-to-active.properties", ["source->target", "target->source"], 2),
        ("001-mm2.properties", ["cluster-a->cluster-b", "cluster-b->cluster-a"], 0),
        ("002-disaster-recovery.properties", ["ClusterA->ClusterB", "ClusterB->ClusterA"], 2),
        ("002-disaster-recovery-new.properties", ["ClusterA->ClusterC", "ClusterC->ClusterA"], 2),
    ],
)
def test_a_seed_loads(name: str, flows: list[str], warnings: int) -> None:
    found = load_mirror(SEEDS / name)
    assert [str(flow.flow) for flow in found.flows] == flows
    assert len(found.warnings) == warnings
    assert all("the old name of" in warning for warning in found.warnings)


def test_the_old_names_of_a_seed_count() -> None:
    flow = load_mirror(SEEDS / "000-active-to-active.properties").flows[0]
    assert flow.mirroring.topics_exclude == (".*[-.]internal", ".*.replica", "__consumer_offsets")
    assert flow.checkpoints.groups_exclude == ("console-consumer-.*", "connect-.*", "__.*")
    assert flow.mirroring.refresh_topics_interval == timedelta(seconds=10)
    assert flow.mirroring.replication_factor == 1
    assert str(flow.source) == "localhost:9093"


def test_a_flow_has_the_defaults_of_mm2_and_ours(file: Path) -> None:
    flow = load(file, ONE_FLOW).flows[0]
    assert flow.flow == Flow("A", "B")
    assert flow.connector_name == "MirrorSourceConnector"
    assert flow.mirroring.topics == (".*",)
    assert flow.mirroring.topics_exclude == (r"mm2.*\.internal", r".*\.replica", "__.*")
    assert (
        flow.policy_class,
        flow.common.replication_policy_separator,
        flow.internal_separator,
    ) == (
        DEFAULT_POLICY,
        ".",
        ".",
    )
    assert flow.offset_storage == StorageTopic(flow.target_admin, "mm2-offsets.A.internal", 25, 3)
    assert flow.working.offset_flush_interval == timedelta(seconds=5)
    assert (flow.reading.isolation_level, flow.reading.auto_offset_reset) == (
        "read_committed",
        "earliest",
    )
    assert (flow.copying.chunk_max_bytes, flow.copying.max_in_flight_requests) == (4194304, 5)
    assert flow.copying.on_loss == "stop"
    assert flow.copying.open_transaction_after == timedelta(seconds=30)
    assert flow.source.client_id == "A->B|MirrorSourceConnector|replication-consumer"
    assert flow.target_admin.client_id == "A->B|MirrorSourceConnector|replication-target-admin"
    assert flow.emits_checkpoints
    assert not flow.syncs_groups


def test_every_setting_of_ours_can_be_bare_or_for_a_flow(file: Path) -> None:
    flow = load(
        file,
        ONE_FLOW + "A->B.on.loss=continue\nmerge.max.bytes=1\nopen.transaction.seconds=-1\n"
        "spark.master=local[2]\nA->B.spark.ui.enabled=false\npartition.fetch.max.bytes=9\n",
    ).flows[0]
    assert flow.copying.goes_on_after_loss
    assert flow.copying.open_transaction_after < timedelta(0), "never"
    assert (flow.copying.merge_max_bytes, flow.copying.partition_fetch_max_bytes) == (1, 9)
    assert flow.spark == {"spark.master": "local[2]", "spark.ui.enabled": "false"}


@pytest.mark.parametrize(
    ("text", "choice"), [("source", "source"), (" Target", "target"), ("5", 5)]
)
def test_remote_topics_may_keep_their_own_partitions(
    file: Path, text: str, choice: str | int
) -> None:
    flow = load(file, f"{ONE_FLOW}A->B.target.partitions={text}\n").flows[0]
    assert flow.copying.target_partitions == choice


@pytest.mark.parametrize("text", ["0", "-1", "both", ""])
def test_partitions_are_a_number_or_a_side(file: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="source, target, or a whole number above 0"):
        load(file, f"{ONE_FLOW}target.partitions={text}\n")


@pytest.mark.parametrize(
    ("text", "flows", "beating"),
    [
        ("A->B.enabled=true", ["A->B"], ["B->A"]),
        ("A->B.enabled=true\nB->A.enabled=TRUE ", ["A->B", "B->A"], []),
        ("A->B.enabled=true\nemit.heartbeats.enabled=false", ["A->B"], []),
        ("enabled=true", ["A->B", "B->A"], []),
        ("enabled=true\nA->B.enabled=true\nemit.heartbeats.enabled=false", ["A->B"], []),
        ("A->B.enabled=true\nB->A.emit.heartbeats.enabled=false", ["A->B"], []),
        (
            "A->B.enabled=true\nemit.heartbeats.enabled=false\nB->A.emit.heartbeats.enabled=true",
            ["A->B"],
            ["B->A"],
        ),
    ],
)
def test_which_flows_mirror_and_which_only_beat(
    file: Path, text: str, flows: list[str], beating: list[str]
) -> None:
    found = load(file, TWO + text)
    assert [str(flow.flow) for flow in found.flows] == flows
    assert [str(flow.flow) for flow in found.heartbeat_flows] == beating


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        (DEFAULT_POLICY, DEFAULT_POLICY),
        (IDENTITY_POLICY, IDENTITY_POLICY),
        ("io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy", IDENTITY_POLICY),
        ("com.amazonaws.kafka.samples.CustomMM2ReplicationPolicy", IDENTITY_POLICY),
        ("shop.naming:Upper", "shop.naming:Upper"),
    ],
)
def test_a_known_policy_is_taken(file: Path, name: str, policy: str) -> None:
    flow = load(
        file, ONE_FLOW + f"replication.policy.class={name.replace(':', chr(92) + ':')}"
    ).flows[0]
    assert flow.policy_class == policy


def test_the_internal_separator_can_stay_a_dot(file: Path) -> None:
    text = ONE_FLOW + "replication.policy.separator=__\n"
    assert load(file, text).flows[0].internal_separator == "__"
    text += "replication.policy.internal.topic.separator.enabled=false"
    assert load(file, text).flows[0].internal_separator == "."


MISTAKES = [
    (
        "A.bootstrap.servers=a:1",
        "mm2.properties: clusters is missing: the names of all clusters, separated by commas.",
    ),
    ("clusters=A,,B", "mm2.properties:1: clusters=A,,B: names separated by commas, such as A, B."),
    (TWO, "mm2.properties: A->B.enabled is missing: no flow is enabled; set at least one to true."),
    (
        "clusters=A",
        "mm2.properties: A->B.enabled is missing: no flow is enabled; set at least one to true.",
    ),
    (
        TWO + "A->X.enabled=true",
        "mm2.properties:4: A->X.enabled=true: X is not a cluster; clusters=A, B.",
    ),
    (
        TWO + "X->B.enabled=true",
        "mm2.properties:4: X->B.enabled=true: X is not a cluster; clusters=A, B.",
    ),
    (
        TWO + "A->A.enabled=true",
        "mm2.properties:4: A->A.enabled=true: a flow joins two different clusters.",
    ),
    (TWO + "A->B.enabled=yes", "mm2.properties:4: A->B.enabled=yes: true or false."),
    (
        "clusters=A,B\nA.bootstrap.servers=a:1\nA->B.enabled=true",
        "mm2.properties: B.bootstrap.servers is missing: brokers to ask first, as host:port,host:port.",
    ),
    (
        ONE_FLOW + "B.sasl.mechanism=PLAIN\nB.security.protocol=SASL_SSL",
        "mm2.properties: B.sasl.jaas.config is missing: PLAIN needs a user and a password.",
    ),
    (
        ONE_FLOW + "topics=a.*,(b",
        (
            "mm2.properties:5: topics=a.*,(b: every comma-separated item is a regular expression, and the one at "
            "position 2 is not (missing ), unterminated subpattern)."
        ),
    ),
    (
        ONE_FLOW + "A->B.groups.blacklist=*",
        (
            "mm2.properties:5: A->B.groups.blacklist=*: every comma-separated item is a regular expression, and the "
            "one at position 1 is not (nothing to repeat)."
        ),
    ),
    (
        ONE_FLOW + "tasks.max=many",
        "mm2.properties:5: tasks.max=many: a whole number from 1 to 2147483647.",
    ),
    (
        ONE_FLOW + "tasks.max=2 # two",
        "mm2.properties:5: tasks.max=2 # two: a whole number from 1 to 2147483647.",
    ),
    (
        ONE_FLOW + "max.in.flight.requests=6",
        "mm2.properties:5: max.in.flight.requests=6: a whole number from 1 to 5.",
    ),
    (ONE_FLOW + "on.loss=skip", "mm2.properties:5: on.loss=skip: one of stop, continue."),
    (
        ONE_FLOW + "A.consumer.isolation.level=dirty",
        "mm2.properties:5: A.consumer.isolation.level=dirty: one of read_committed, read_uncommitted.",
    ),
    (
        ONE_FLOW + "B.offset.storage.replication.factor=0",
        "mm2.properties:5: B.offset.storage.replication.factor=0: a whole number from 1 to 32767 (or -1).",
    ),
    (
        ONE_FLOW + "offset-syncs.topic.location=moon",
        "mm2.properties:5: offset-syncs.topic.location=moon: one of source, target.",
    ),
    (
        ONE_FLOW + "replication.policy.class=com.example.Mine",
        (
            "mm2.properties:5: replication.policy.class=com.example.Mine: "
            "org.apache.kafka.connect.mirror.DefaultReplicationPolicy, "
            "org.apache.kafka.connect.mirror.IdentityReplicationPolicy, or a policy of your own written in Python as "
            "package.module:Class (a Java class cannot be loaded)."
        ),
    ),
    (
        ONE_FLOW + "emit.offset-syncs.enabled=false\noffset-syncs.topic.location=target",
        "mm2.properties:5: emit.offset-syncs.enabled=false: true, or remove offset-syncs.topic.location.",
    ),
    (
        ONE_FLOW
        + "A->B.exactly.once.support=required\nA.consumer.isolation.level=read_uncommitted",
        (
            "mm2.properties:6: A.consumer.isolation.level=read_uncommitted: read_committed, because "
            "exactly.once.support=required."
        ),
    ),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_a_mistake_is_one_sentence_with_its_place(file: Path, text: str, message: str) -> None:
    assert mistake(file, text) == message


WARNINGS = [
    (
        "topics.blacklist=x",
        "topics.blacklist: the old name of topics.exclude, still understood; write topics.exclude",
    ),
    (
        "A->B.topics.blacklist=x",
        "A->B.topics.blacklist: the old name of topics.exclude, still understood; write topics.exclude",
    ),
    ("topics.whitelist=x", "topics.whitelist: ignored, MirrorMaker 2 never had it, write topics"),
    ("B->A.enable=true", "B->A.enable: ignored, write enabled"),
    ("B->A.emit.heartbeats=true", "B->A.emit.heartbeats: ignored, write emit.heartbeats.enabled"),
    ("task.max=3", "task.max: ignored, write tasks.max"),
    (
        "offset.syncs.topic.replication.factor=1",
        "offset.syncs.topic.replication.factor: ignored, write offset-syncs.topic.replication.factor",
    ),
    (
        "sync.topics.configs.enabled=true",
        "sync.topics.configs.enabled: ignored, write sync.topic.configs.enabled",
    ),
    (
        "use.incremental.alter.configs=never",
        "use.incremental.alter.configs: ignored, gone since Kafka 4.0, settings are always altered one by one",
    ),
    (
        "refresh.topic.interval.seconds=5",
        "refresh.topic.interval.seconds: not a known key and ignored; the nearest is refresh.topics.interval.seconds",
    ),
    ("A->B.topic=x", "A->B.topic: not a known key and ignored; the nearest is A->B.topics"),
    (
        "B.offset.flush.intervall.ms=5",
        "B.offset.flush.intervall.ms: not a known key and ignored; the nearest is B.offset.flush.interval.ms",
    ),
    ("qqq=1", "qqq: not a known key and ignored"),
    (
        "epoch.seconds=4",
        "epoch.seconds: ignored, tasks run until they are told to end, and hand partitions over meanwhile",
    ),
    (
        "A->B.epoch.seconds=600",
        "A->B.epoch.seconds: ignored, tasks run until they are told to end, and hand partitions over meanwhile",
    ),
    (
        "A.topics=x",
        "A.topics: ignored, it is not a cluster's key; write topics or SOURCE->A.topics",
    ),
    (
        "offset.flush.interval.ms=1",
        "offset.flush.interval.ms: ignored without a cluster; write TARGET.offset.flush.interval.ms",
    ),
    (
        "consumer.isolation.level=x",
        "consumer.isolation.level: ignored without a cluster; write A.consumer.isolation.level",
    ),
    (
        "use.defaults.from=source",
        "use.defaults.from: ignored without a flow; write SOURCE->TARGET.use.defaults.from",
    ),
    (
        "A->B.offset.flush.interval.ms=1",
        "A->B.offset.flush.interval.ms: ignored, a flow's key does not reach the worker; write B.offset.flush.interval.ms",
    ),
    ("C.bootstrap.servers=c:1", "C.bootstrap.servers: ignored, C is not one of clusters=A, B"),
    ("A->C.topics=x", "A->C.topics: ignored, clusters names only A, B"),
    ("A->C.enabled=false", "A->C.enabled: ignored, clusters names only A, B"),
    (
        "A->B.emit.checkpoints.enabled=false",
        "A->B.emit.checkpoints.enabled: A->B writes no checkpoints and syncs no groups",
    ),
    ("tasks.max=1\ntasks.max=2", "tasks.max was already set in line 5; this one counts"),
    ("a=${nix:x}", "a: no provider 'nix', left as written (there are dir, directory, env, file)"),
]


@pytest.mark.parametrize(("text", "warning"), WARNINGS)
def test_a_key_without_effect_is_reported(file: Path, text: str, warning: str) -> None:
    found = load(file, ONE_FLOW + text)
    line = 5 + text.count("\n")
    assert f"mm2.properties:{line}: {warning}" in found.warnings


def test_known_keys_of_every_level_give_no_warning(file: Path) -> None:
    found = load(
        file,
        ONE_FLOW
        + "A.consumer.fetch.min.bytes=1\nB.producer.compression.type=zstd\nB.plugin.path=/x\n"
        "A->B.producer.override.acks=all\nA->B.transforms=t\nA->B.transforms.t.type=x\nlisteners=http://:1\n"
        "A->B.source.consumer.isolation.level=read_uncommitted\nkey.converter=x\nstatus.storage.topic=s\n"
        "config.providers=file\nconfig.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider\n"
        "spark.x=1\nsecurity.protocol=PLAINTEXT\nA->B.use.defaults.from=source\nB.key.converter.x=1\n",
    )
    assert found.warnings == ()
    assert found.flows[0].reading.isolation_level == "read_uncommitted"
    assert found.flows[0].flow_only.use_defaults_from == "source"


SECRET = "hunter2"
WITH_SECRETS = ONE_FLOW + (
    "A.security.protocol=SASL_SSL\nA.sasl.mechanism=PLAIN\n"
    f'A.sasl.jaas.config=x.Plain required username="u" password="{SECRET}";\n'
    f"A.ssl.truststore.password={SECRET}\nB.ssl.keystore.key={SECRET}\nmy.password={SECRET}\n"
    "A->B.topics=${env:TOPICS}\nB.producer.sasl.jaas.config=${env:TOPICS}\n"
)


def test_no_secret_is_shown_anywhere(file: Path) -> None:
    found = load(file, WITH_SECRETS, TOPICS=SECRET)
    flow = found.flows[0]
    shown = (
        f"{found} {found!r} {flow} {flow!r} {found.written!r} {found.warnings} {flow.connectors!r}"
    )
    shown += f"{flow.worker!r} {flow.source!r} {flow.target!r} {flow.connectors[Part.SOURCE]}"
    assert SECRET not in shown
    assert flow.mirroring.topics == (SECRET,)
    assert flow.source.sasl is not None
    assert dict(flow.source.sasl.options)["password"] == SECRET


@pytest.mark.parametrize(
    "text",
    [
        "tasks.max=${env:S}",
        "topics=[${env:S}",
        "A.bootstrap.servers=${env:S}",
        "replication.policy.class=${env:S}",
        f"A.security.protocol=SASL_SSL\nA.sasl.mechanism=PLAIN\nA.sasl.jaas.config=x required {SECRET};",
        f"A.sasl.oauthbearer.jwks.endpoint.refresh.ms=1\nssl.keystore.password={SECRET}\ntasks.max=x",
    ],
)
def test_no_secret_is_shown_in_an_error(file: Path, text: str) -> None:
    file.write_text(ONE_FLOW + text)
    with pytest.raises(ConfigError) as caught:
        load_mirror(file, {"S": SECRET})
    shown = caught.getrepr(chain=True, style="native")
    assert SECRET not in f"{caught.value} {caught.value!r} {shown}"
