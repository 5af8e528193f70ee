import json
from dataclasses import replace
from pathlib import Path

import pytest

from heliograph.config.connectors import connector_config, load_connector, load_worker
from heliograph.config.fields import Part
from heliograph.config.listeners import (
    Listener,
    choose_listener,
    parse_listen,
    read_https,
    read_listener,
)
from heliograph.config.properties import properties_of
from heliograph.config.settings_connector import IDENTITY_POLICY
from heliograph.errors import ConfigError
from heliograph.model import Flow

SEEDS = Path(__file__).parent / "seeds"
MINIMAL = {
    "connector.class": "MirrorSourceConnector",
    "source.cluster.alias": "A",
    "source.cluster.bootstrap.servers": "a:1",
    "target.cluster.bootstrap.servers": "b:1",
}


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("mm2-msc-source-0", Part.SOURCE),
        ("mm2-cpc-source-0", Part.CHECKPOINT),
        ("mm2-hbc-source-0", Part.HEARTBEAT),
    ],
)
def test_a_connector_of_a_seed_loads(name: str, part: Part) -> None:
    found = load_connector(SEEDS / f"004-{name}.json")
    assert (found.name, found.part, found.warnings) == (name, part, ())
    assert found.config.flow == Flow("source-0", "target-0")
    assert str(found.config.target) == "kafka-target-0:9092,kafka-target-1:9092"


def test_a_source_connector_is_read_as_a_flow() -> None:
    worker = load_worker(SEEDS / "004-connect-distributed.properties")
    flow = load_connector(SEEDS / "004-mm2-msc-source-0.json", worker).config
    assert (flow.common.enabled, flow.connector_name, flow.common.tasks_max) == (
        True,
        "mm2-msc-source-0",
        2,
    )
    assert (flow.mirroring.topics, flow.policy_class) == (("test",), IDENTITY_POLICY)
    assert not flow.mirroring.syncs_topic_acls
    assert not flow.mirroring.syncs_topic_configs
    assert (flow.offset_storage.name, flow.offset_storage.replication_factor) == (
        "connect-offsets",
        1,
    )
    assert flow.working.offset_flush_interval.total_seconds() == 10


def test_a_connector_without_a_name_has_that_of_its_file() -> None:
    found = load_connector(SEEDS / "003-mm2-src.json")
    assert found.config.connector_name == "003-mm2-src"
    assert found.config.policy_class == IDENTITY_POLICY


def test_a_worker_of_a_seed_loads_with_its_old_keys_named() -> None:
    found = load_worker(SEEDS / "004-connect-distributed.properties")
    assert found.group_id == "connect-cluster"
    assert str(found.endpoint) == "kafka-target-0:9092,kafka-target-1:9092"
    assert [warning.split(": ")[1] for warning in found.warnings] == [
        "internal.key.converter",
        "internal.value.converter",
        "internal.key.converter.schemas.enable",
        "internal.value.converter.schemas.enable",
    ]
    assert read_listener(found.props) == Listener("127.0.0.1", 8083, "http://127.0.0.1:8083")


@pytest.mark.parametrize(
    ("props", "listener"),
    [
        ({}, ("127.0.0.1", 8083, "http://127.0.0.1:8083")),
        ({"listeners": "http://:9000"}, ("127.0.0.1", 9000, "http://127.0.0.1:9000")),
        ({"listeners": "http://0.0.0.0:9000"}, ("0.0.0.0", 9000, "http://127.0.0.1:9000")),
        (
            {"listeners": "HTTP://connect-1:80, http://b:81", "rest.advertised.host.name": "c"},
            ("connect-1", 80, "http://c:80"),
        ),
        ({"listeners": "http://[::1]:9000"}, ("::1", 9000, "http://[::1]:9000")),
        ({"rest.port": "9", "rest.host.name": "h"}, ("h", 9, "http://h:9")),
        ({"listeners": "HTTPS://h:9"}, ("h", 9, "https://h:9")),
    ],
)
def test_rest_is_for_this_machine_alone_unless_a_host_is_named(
    props: dict[str, str], listener: tuple[str, int, str]
) -> None:
    assert read_listener(props) == listener


@pytest.mark.parametrize("written", ["8083", "ftp://h:1", "http://h", "http://h:99999"])
def test_a_listener_that_is_no_url_is_a_mistake(written: str) -> None:
    with pytest.raises(ConfigError, match=r"listeners.*http://127\.0\.0\.1:8083"):
        read_listener({"listeners": written})


@pytest.mark.parametrize(
    ("text", "listener"),
    [
        ("127.0.0.1:8083", ("127.0.0.1", 8083, "http://127.0.0.1:8083")),
        ("https://[::1]:9", ("::1", 9, "https://[::1]:9")),
        ("http://h:0", ("h", 0, "http://h:0")),
    ],
)
def test_a_place_to_listen_at_is_host_and_port_or_a_url(
    text: str, listener: tuple[str, int, str]
) -> None:
    assert parse_listen(text) == listener


@pytest.mark.parametrize("text", ["8083", ":8083", "h", "h:99999", "ftp://h:1", "https://:1"])
def test_another_place_to_listen_at_is_a_mistake(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--listen .*https://HOST:PORT"):
        parse_listen(text)


def test_a_place_given_on_the_command_line_wins_over_the_file() -> None:
    file = {"listeners": "http://127.0.0.1:9000"}
    assert choose_listener("127.0.0.1:1", file).port == 1
    assert choose_listener(None, file).port == 9000
    assert choose_listener(None, {}) == Listener("127.0.0.1", 8083, "http://127.0.0.1:8083")


def test_what_a_worker_says_of_spark_counts_for_its_connectors() -> None:
    worker = load_worker(SEEDS / "004-connect-distributed.properties")
    given = replace(worker, props={**worker.props, "spark.master": "spark://h:7077"})
    flow = load_connector(SEEDS / "004-mm2-msc-source-0.json", given).config
    assert flow.spark == {"spark.master": "spark://h:7077"}


def test_one_certificate_key_of_the_listener_puts_the_bare_ones_out_of_use() -> None:
    bare = {"ssl.keystore.location": "bare", "ssl.client.auth": "required"}
    found = read_https(bare)
    assert (found.tls.keystore_location, found.client_auth) == ("bare", "required")
    found = read_https(bare | {"listeners.https.ssl.keystore.type": "PEM"})
    assert (found.tls.keystore_location, found.client_auth) == (None, "none")


@pytest.mark.parametrize("suffix", ["json", "properties"])
def test_a_connector_is_json_or_properties(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"c.{suffix}"
    lines = "".join(f"{key}={value}\n" for key, value in MINIMAL.items())
    file.write_text(json.dumps({"name": "c", "config": MINIMAL}) if suffix == "json" else lines)
    found = load_connector(file)
    assert (found.name, str(found.config.flow), found.warnings) == ("c", "A->target", ())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"connector.class": "FileStreamSource"},
            "c.json:2: connector.class=FileStreamSource: one of org.apache",
        ),
        (
            {"source.cluster.alias": None},
            "c.json: source.cluster.alias is missing: the name of the source",
        ),
        (
            {"source.cluster.bootstrap.servers": None},
            "c.json: source.cluster.bootstrap.servers is missing: brokers to ask first",
        ),
        ({"tasks.max": 0}, "c.json:6: tasks.max=0: a whole number from 1 to 2147483647."),
        (
            {"connector.class": "MirrorCheckpointConnector", "emit.checkpoints.enabled": False},
            "c.json:6: emit.checkpoints.enabled=false: true, or remove the connector.",
        ),
    ],
)
def test_a_mistake_in_a_connector_names_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, object], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.json").write_text(json.dumps(MINIMAL | change, indent=1))
    with pytest.raises(ConfigError) as caught:
        load_connector(Path("c.json"))
    assert str(caught.value).startswith(message)


def test_an_unknown_key_of_a_connector_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text(json.dumps(MINIMAL | {"topicz": "x", "topics.blacklist": "y"}))
    warnings = load_connector(file).warnings
    assert warnings[0].endswith("topicz: not a known key and ignored; the nearest is topics")
    assert "the old name of topics.exclude" in warnings[1]


def test_a_worker_needs_its_topics(tmp_path: Path) -> None:
    file = tmp_path / "w.properties"
    file.write_text("bootstrap.servers=a:1\ngroup.id=g\n")
    with pytest.raises(ConfigError, match=r"offset\.storage\.topic is missing"):
        load_worker(file)


CHECKPOINT = MINIMAL | {"connector.class": "MirrorCheckpointConnector"}


@pytest.mark.parametrize("switch", ["emit.checkpoints.enabled", "emit.offset-syncs.enabled"])
def test_a_checkpoint_connector_that_cannot_work_is_refused_unless_it_is_off(
    tmp_path: Path, switch: str
) -> None:
    file = tmp_path / "c.json"
    file.write_text(json.dumps(CHECKPOINT | {switch: "false"}))
    with pytest.raises(ConfigError, match=f"{switch}=false: true, or remove the connector"):
        load_connector(file)
    file.write_text(json.dumps(CHECKPOINT | {switch: "false", "enabled": "false"}))
    assert not load_connector(file).config.common.enabled
    file.write_text(json.dumps(CHECKPOINT | {switch: "true"}))
    assert load_connector(file).config.emits_checkpoints


PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"


def test_a_connector_sent_to_a_worker_makes_it_read_no_file_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "v.properties").write_text("host=stolen:1\n")
    file = tmp_path / "w.properties"
    text = "bootstrap.servers=a:1\ngroup.id=g\noffset.storage.topic=o\nconfig.storage.topic=c\n"
    text += "status.storage.topic=s\n"
    file.write_text(text)
    sent = MINIMAL | {
        "config.providers": "file",
        "config.providers.file.class": PROVIDER,
        "source.cluster.bootstrap.servers": f"${{file:{tmp_path}/v.properties:host}}",
    }
    with pytest.raises(ConfigError) as caught:
        connector_config(properties_of(sent, "connector c"), "c", load_worker(file), {})
    assert "stolen" not in str(caught.value)

    file.write_text(text + f"config.providers=file\nconfig.providers.file.class={PROVIDER}\n")
    found = connector_config(properties_of(sent, "connector c"), "c", load_worker(file), {})
    assert str(found.config.source) == "stolen:1"
