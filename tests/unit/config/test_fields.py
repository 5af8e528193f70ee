import pickle
from datetime import timedelta
from pathlib import Path

import pytest

from heliograph.config import document
from heliograph.config.fields import (
    BOOLEAN,
    COUNT,
    DOUBLE,
    LIST,
    PATTERNS,
    REPLICATION_FACTOR,
    SECONDS,
    Field,
    Kind,
    NotAllowed,
    Part,
    one_of,
)
from heliograph.config.mistakes import InvalidSetting, MissingSetting, UnreadableFile
from heliograph.config.secrets import is_secret
from heliograph.config.settings import FIELDS, fields_of, names_in
from heliograph.config.settings_checkpoint import CheckpointSettings, HeartbeatSettings
from heliograph.config.settings_connector import ConnectorSettings
from heliograph.config.settings_security import ClientSettings
from heliograph.config.settings_source import SourceSettings

ROOT = Path(__file__).parents[3]

VALUES: list[tuple[Kind[object], str, object]] = [
    (BOOLEAN, " TRUE ", True),
    (BOOLEAN, "false", False),
    (COUNT, " 7 ", 7),
    (DOUBLE, "0.8", 0.8),
    (REPLICATION_FACTOR, "-1", -1),
    (SECONDS, "10", timedelta(seconds=10)),
    (SECONDS, "-1", timedelta(seconds=-1)),
    (LIST, "", ()),
    (LIST, " a , b,c ", ("a", "b", "c")),
    (LIST, "a,,b", ("a", "", "b")),
    (PATTERNS, r".*\.x, __.*", (r".*\.x", "__.*")),
    (one_of("SASL_SSL", "SSL"), "sasl_ssl", "SASL_SSL"),
]

MISTAKES: list[tuple[Kind[object], str, str]] = [
    (BOOLEAN, "yes", "true or false"),
    (BOOLEAN, "true # for now", "true or false"),
    (COUNT, "0", "a whole number from 1 to 2147483647"),
    (COUNT, "1.5", "a whole number from 1 to 2147483647"),
    (COUNT, "٣", "a whole number from 1 to 2147483647"),
    (COUNT, "", "a whole number from 1 to 2147483647"),
    (DOUBLE, "nan", "a number, such as 0.8"),
    (REPLICATION_FACTOR, "0", "a whole number from 1 to 32767 (or -1)"),
    (SECONDS, "0", "a whole number of seconds above 0 (or -1: never)"),
    (SECONDS, "1m", "a whole number of seconds above 0 (or -1: never)"),
    (PATTERNS, "a.*, b[", "the one at position 2 is not (unterminated character set)"),
    (one_of("stop", "continue"), "go", "one of stop, continue"),
]


@pytest.mark.parametrize(("kind", "text", "value"), VALUES)
def test_a_kind_reads_what_kafka_reads(kind: Kind[object], text: str, value: object) -> None:
    assert kind.parse(text) == value


@pytest.mark.parametrize(("kind", "text", "allowed"), MISTAKES)
def test_a_kind_says_what_it_takes(kind: Kind[object], text: str, allowed: str) -> None:
    with pytest.raises(NotAllowed) as caught:
        kind.parse(text)
    assert str(caught.value).endswith(allowed)


def test_an_absent_key_has_its_default_and_a_required_one_is_missed() -> None:
    assert ConnectorSettings.tasks_max.read({}) == 1
    with pytest.raises(
        MissingSetting, match=r"^c\.json: name is missing: a name for the connector"
    ):
        ConnectorSettings.name.read({}, "c.json")


def test_a_plain_value_without_origin_can_be_wrong_too() -> None:
    with pytest.raises(InvalidSetting, match=r"^tasks\.max=many: a whole number"):
        ConnectorSettings.tasks_max.read({"tasks.max": "many"})


def test_every_key_is_declared_once_and_documented_in_a_sentence() -> None:
    names = [field.name for field in FIELDS]
    assert sorted(set(names)) == sorted(names)
    assert [field.name for field in FIELDS if not (field.doc.endswith(".") and field.by)] == []


def test_passwords_are_secrets_by_name_too() -> None:
    passwords = [field.name for field in FIELDS if field.kind.name == "PASSWORD"]
    assert "sasl.jaas.config" in passwords
    assert all(is_secret(name) and is_secret(f"A.{name}") for name in passwords)


CONNECTOR_KEYS = names_in(
    ConnectorSettings, SourceSettings, CheckpointSettings, HeartbeatSettings, ClientSettings
)
COUNTS = {Part.SOURCE: 113, Part.CHECKPOINT: 108, Part.HEARTBEAT: 97}


@pytest.mark.parametrize(("part", "count"), COUNTS.items())
def test_a_connector_declares_as_many_keys_as_in_mm2(part: Part, count: int) -> None:
    declared = [field for field in FIELDS if part in field.by and field.name in CONNECTOR_KEYS]
    assert len(declared) == count
    assert set(declared) <= set(fields_of(part))


def test_the_page_of_keys_is_up_to_date() -> None:
    page = ROOT / "docs" / "configuration.md"
    assert page.read_text() == document.document(), "run python -m heliograph.config.document"


def test_the_page_has_a_row_for_every_key() -> None:
    page = document.document()
    assert all(f"| `{field.name}` | {field.kind.name} |" in page for field in FIELDS)
    assert "| `refresh.topics.interval.seconds` | LONG | `600` |" in page
    assert "| `admin.timeout.ms` | LONG | `60000` |" in page


@pytest.mark.parametrize(
    "error",
    [
        InvalidSetting("f:1", "k", "v", "x"),
        MissingSetting("f", "k", "x"),
        UnreadableFile("f", "gone"),
    ],
)
def test_errors_pickle(error: Exception) -> None:
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_field_is_secret_by_kind_or_by_name() -> None:
    assert Field("x.token", LIST, (), "A thing.").secret
    assert not ConnectorSettings.tasks_max.secret
