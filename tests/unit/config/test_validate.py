import json
from pathlib import Path
from typing import Any

import pytest

from heliograph.config.definitions import definitions
from heliograph.config.fields import CONNECTORS, Part
from heliograph.config.precedence import CLASSES
from heliograph.config.secrets import HIDDEN, unmask
from heliograph.config.validate import find_plugin, mistakes, validate

RECORDED = json.loads(Path("tests/golden/connect/answers.json").read_text())["answers"]
GOOD = {"name": "x", "connector.class": "Mirror", "source.cluster.alias": "A"}
OURS = {
    "use.defaults.from",
    "chunk.max.bytes",
    "partition.fetch.max.bytes",
    "max.in.flight.requests",
    "on.loss",
    "merge.max.bytes",
    "open.transaction.seconds",
    "target.partitions",
}


def _errors(part: Part, **keys: str) -> dict[str, list[str]]:
    given = {key.replace("__", "-").replace("_", "."): value for key, value in keys.items()}
    validated = validate(part, GOOD | given)
    values = [entry["value"] for entry in validated["configs"]]
    return {value["name"]: value["errors"] for value in values if value["errors"]}


@pytest.mark.parametrize("part", CONNECTORS)
def test_every_key_is_defined_as_connect_defines_it(part: Part) -> None:
    path = f"/connector-plugins/{CLASSES[part]}/config"
    theirs: list[dict[str, Any]] = next(e["body"] for e in RECORDED if e["path"] == path)
    ours = {each["name"]: each | {"documentation": "{text}"} for each in definitions(part)}

    assert {each["name"]: each for each in theirs} == {
        name: each for name, each in ours.items() if name not in OURS
    }


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("org.apache.kafka.connect.mirror.MirrorSourceConnector", Part.SOURCE),
        ("MirrorCheckpointConnector", Part.CHECKPOINT),
        ("MirrorHeartbeat", Part.HEARTBEAT),
        ("Mirror", None),
        ("org.none.MirrorSourceConnector", None),
    ],
)
def test_a_plug_in_has_three_names(name: str, part: Part | None) -> None:
    assert find_plugin(name) is part


def test_all_mistakes_are_told_not_only_the_first() -> None:
    validated = validate(Part.SOURCE, {"connector.class": "MirrorSource", "tasks.max": "many"})

    assert validated["error_count"] == 3
    assert mistakes(validated) == [
        'Missing required configuration "name" which has no default value.',
        "Invalid value many for configuration tasks.max: a whole number from 1 to 2147483647",
        'Missing required configuration "source.cluster.alias" which has no default value.',
    ]


def test_a_checkpoint_connector_needs_offset_syncs_and_checkpoints() -> None:
    off = {"emit_checkpoints_enabled": "false", "emit_offset__syncs_enabled": "false"}

    assert set(_errors(Part.CHECKPOINT, **off)) == {
        "emit.checkpoints.enabled",
        "emit.offset-syncs.enabled",
    }
    assert _errors(Part.CHECKPOINT, enabled="false", **off) == {}


def test_a_source_connector_without_offset_syncs_takes_no_settings_of_them() -> None:
    off = {"emit_offset__syncs_enabled": "false"}

    assert _errors(Part.SOURCE, **off) == {}
    assert set(_errors(Part.SOURCE, offset__syncs_topic_location="source", **off)) == {
        "emit.offset-syncs.enabled"
    }


def test_exactly_once_does_not_go_with_uncommitted_records() -> None:
    once = {"exactly_once_support": "required"}
    dirty = validate(
        Part.SOURCE,
        GOOD
        | {
            "exactly.once.support": "required",
            "source.consumer.isolation.level": "read_uncommitted",
        },
    )

    assert _errors(Part.SOURCE, **once) == {}
    assert dirty["error_count"] == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("topic.filter.class", "com.example.MyFilter"),
        ("transforms", "route"),
        ("replication.policy.class", "com.example.MyPolicy"),
        ("security.protocol", "TELEPATHY"),
        ("topics", "a(b"),
        ("name", "a\tb"),
        ("name", " "),
    ],
)
def test_what_could_only_fail_later_is_told_at_once(key: str, value: str) -> None:
    validated = validate(Part.SOURCE, GOOD | {key: value})

    assert [e["value"]["name"] for e in validated["configs"] if e["value"]["errors"]] == [key]


def test_an_expression_is_not_looked_into() -> None:
    validated = validate(Part.SOURCE, GOOD | {"tasks.max": "${file:/etc/passwd:root}"})

    assert validated["error_count"] == 0


def test_only_masks_of_secrets_are_filled_in() -> None:
    stored = {"sasl.jaas.config": "login", "topics": "a"}
    sent = {"sasl.jaas.config": HIDDEN, "topics": HIDDEN, "ssl.key.password": HIDDEN}

    assert unmask(sent, stored) == {
        "sasl.jaas.config": "login",
        "topics": HIDDEN,
        "ssl.key.password": HIDDEN,
    }
