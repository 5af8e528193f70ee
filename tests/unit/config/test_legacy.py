from datetime import timedelta
from pathlib import Path

import pytest

from heliograph.config.flow import FlowConfig
from heliograph.config.legacy import java_pattern, load_legacy
from heliograph.config.naming import replicates_of
from heliograph.errors import ConfigError

CONSUMER = "bootstrap.servers=a:1,b:2\ngroup.id=mirror\nclient.id=mm\n"
PRODUCER = "bootstrap.servers=c:3\nsecurity.protocol=SSL\n"


def load(
    folder: Path, consumer: str = CONSUMER, producer: str = PRODUCER, include: str = "orders.*,pay"
) -> FlowConfig:
    files = folder / "consumer.properties", folder / "producer.properties"
    for file, text in zip(files, (consumer, producer), strict=True):
        file.write_text(text)
    return load_legacy(*files, include, timedelta(seconds=7), {})


def test_two_files_make_a_flow_with_nothing_beside_the_data(tmp_path: Path) -> None:
    flow = load(tmp_path)

    assert flow.source.bootstrap == flow.source_admin.bootstrap == (("a", 1), ("b", 2))
    assert flow.target.bootstrap == flow.target_admin.bootstrap == (("c", 3),)
    assert flow.target.tls is not None
    assert flow.target_admin.tls is not None
    assert flow.source.tls is None
    assert flow.positions_group == "mirror"
    assert flow.offset_storage.endpoint == flow.source_admin
    assert flow.working.offset_flush_interval == timedelta(seconds=7)
    assert (flow.copying.target_partitions, flow.reading.auto_offset_reset) == ("target", "latest")
    assert (flow.mirroring.replication_factor, flow.copying.on_loss) == (-1, "continue")
    assert not flow.mirroring.syncs_topic_configs
    assert not flow.mirroring.syncs_topic_acls
    assert not flow.mirroring.emit_offset_syncs_enabled
    assert not flow.emits_checkpoints
    assert not flow.heartbeats.emits


def test_what_the_consumer_says_of_its_start_counts(tmp_path: Path) -> None:
    text = CONSUMER + "auto.offset.reset=earliest\nmetadata.max.age.ms=5000\n"
    flow = load(tmp_path, text)

    assert flow.reading.auto_offset_reset == "earliest"
    assert flow.mirroring.refresh_topics_interval == timedelta(seconds=5)


@pytest.mark.parametrize(
    ("include", "topic", "copied"),
    [
        ("orders.*,pay", "orders-1", True),
        ("orders.*,pay", "pay", True),
        ("orders.*,pay", "payments", False),
        ("'a, b'", "b", True),
        ("(a,b)-x", "b-x", True),
        (".*", "my-heartbeats", True),
        (".*", "mm2-x.internal", True),
        (".*", "__own", True),
    ],
)
def test_topics_are_chosen_by_their_names_alone(
    tmp_path: Path, include: str, topic: str, copied: bool
) -> None:
    assert replicates_of(load(tmp_path, include=include))(topic) is copied


@pytest.mark.parametrize(
    ("consumer", "producer", "words"),
    [
        ("group.id=g\n", PRODUCER, "consumer.properties: bootstrap.servers"),
        ("bootstrap.servers=a:1\n", PRODUCER, "consumer.properties: group.id"),
        (CONSUMER, "acks=all\n", "producer.properties: bootstrap.servers"),
        (CONSUMER + "auto.offset.reset=first\n", PRODUCER, "consumer.properties:4: auto.offset"),
    ],
)
def test_a_mistake_names_its_file(tmp_path: Path, consumer: str, producer: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, consumer, producer)
    assert words in str(raised.value)


def test_an_empty_pattern_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="is empty"):
        java_pattern(' "" ')
