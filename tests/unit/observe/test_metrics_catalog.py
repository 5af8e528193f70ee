import re
from pathlib import Path

from heliograph.observe.metrics_catalog import METRICS, Kind
from heliograph.observe.metrics_document import document

ROOT = Path(__file__).parents[3]

# What a JMX exporter with Strimzi's rules tells of the beans of a MirrorMaker 2, by `mm2.md` 7.1 and 7.3.
_SPREAD = ("", "_max", "_min", "_avg")
SOURCE_BEAN = {
    "kafka_connect_mirror_mirrorsourceconnector_" + attribute
    for attribute in (
        *("record_count", "record_rate", "byte_count", "byte_rate"),
        *(f"record_age_ms{suffix}" for suffix in _SPREAD),
        *(f"replication_latency_ms{suffix}" for suffix in _SPREAD),
    )
}
CHECKPOINT_BEAN = {
    f"kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms{suffix}"
    for suffix in _SPREAD
}


def test_every_metric_of_mm2_has_its_name_and_labels() -> None:
    mm2 = {m.name: m for m in METRICS if m.name.startswith("kafka_connect_mirror_")}
    assert set(mm2) == SOURCE_BEAN | CHECKPOINT_BEAN
    assert {mm2[name].labels for name in SOURCE_BEAN} == {
        ("source", "target", "topic", "partition")
    }
    assert {mm2[name].labels for name in CHECKPOINT_BEAN} == {
        ("source", "target", "group", "topic", "partition")
    }
    assert {metric.kind for metric in mm2.values()} == {Kind.GAUGE}


def test_every_metric_is_declared_once_and_told_of_in_a_sentence() -> None:
    names = [metric.name for metric in METRICS]
    assert sorted(set(names)) == sorted(names)
    assert [m.name for m in METRICS if not (m.help.endswith(".") and "\n" not in m.help)] == []


def test_names_are_as_prometheus_wants_them() -> None:
    ours = [m for m in METRICS if m.name.startswith("heliograph_")]
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", metric.name) for metric in METRICS)
    assert {m.name for m in ours if m.name.endswith("_total")} == {
        m.name for m in ours if m.kind is Kind.COUNTER
    }
    assert [m.name for m in ours if re.search(r"_ms(_|$)", m.name)] == [], "seconds and bytes only"


def test_the_page_of_metrics_is_up_to_date() -> None:
    page = ROOT / "docs" / "metrics.md"
    assert page.read_text() == document(), "run python -m heliograph.observe.metrics_document"


def test_the_page_has_a_row_for_every_metric() -> None:
    assert all(f"| `{metric.name}` | {metric.kind} |" in document() for metric in METRICS)
