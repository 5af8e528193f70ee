import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.errors import CorruptRecord
from heliograph.wire.connect_state import (
    CommitRow,
    ConfigRow,
    ConnectorRow,
    ConnectorStatusRow,
    RestartRow,
    Status,
    StatusRow,
    TargetStateRow,
    TaskRow,
    TaskStatusRow,
    TopicRow,
    decode_config_row,
    decode_status_row,
    encode_config_row,
    encode_status_row,
)

GOLDEN = Path(__file__).parents[2] / "golden"
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NAMES = TEXT.filter(bool)
NUMBERS = st.integers(0, 2**31 - 1)
PROPERTIES = st.dictionaries(TEXT, TEXT, max_size=5)


def golden(topic: str) -> list[tuple[bytes, bytes]]:
    records = json.loads((GOLDEN / f"{topic}.json").read_text())["records"]
    return [(bytes.fromhex(r["key"]), bytes.fromhex(r["value"])) for r in records]


def test_connectors_of_a_real_connect_are_written_as_it_writes_them() -> None:
    rows = [(decode_config_row(*record), record) for record in golden("mm2-configs.A.internal")]
    for row, record in rows:
        assert row is not None
        assert encode_config_row(row) == record
    kinds = [type(row).__name__ for row, _ in rows]
    assert {k: kinds.count(k) for k in kinds} == {"ConnectorRow": 3, "TaskRow": 4, "CommitRow": 3}
    assert CommitRow("MirrorSourceConnector", 2) in [row for row, _ in rows]


def test_states_of_a_real_connect_are_written_as_it_writes_them() -> None:
    rows = [(decode_status_row(*record), record) for record in golden("mm2-status.A.internal")]
    for row, record in rows:
        assert row is not None
        assert encode_status_row(row) == record
    kinds = {type(row) for row, _ in rows}
    assert kinds == {ConnectorStatusRow, TaskStatusRow, TopicRow}


@pytest.mark.parametrize(
    ("row", "key", "value"),
    [
        (
            TargetStateRow("c", "STARTED"),
            b"target-state-c",
            b'{"state":"STARTED","state.v2":"STARTED"}',
        ),
        (
            TargetStateRow("c", "STOPPED"),
            b"target-state-c",
            b'{"state":"PAUSED","state.v2":"STOPPED"}',
        ),
        (
            RestartRow("c", True, False),
            b"restart-connector-c",
            b'{"include-tasks":true,"only-failed":false}',
        ),
        (ConnectorRow("c", None), b"connector-c", None),
        (TargetStateRow("c", None), b"target-state-c", None),
        (TaskRow("a-b", 12, {"k": "é\U0001f600\n"}), b"task-a-b-12", None),
    ],
)
def test_rows_have_the_names_and_members_that_connect_gives_them(
    row: ConfigRow, key: bytes, value: bytes | None
) -> None:
    encoded_key, encoded = encode_config_row(row)
    assert encoded_key == key
    if not isinstance(row, TaskRow):
        assert encoded == value
    assert decode_config_row(encoded_key, encoded) == row


def test_a_target_state_of_an_old_connect_has_one_member() -> None:
    row = decode_config_row(b"target-state-c", b'{"state":"PAUSED"}')
    assert row == TargetStateRow("c", "PAUSED")


def test_a_status_of_an_old_connect_has_no_version() -> None:
    told = b'{"state":"FAILED","trace":"why","worker_id":"h:1","generation":2}'
    row = decode_status_row(b"status-task-a-b-3", told)
    assert row == TaskStatusRow("a-b", 3, Status("FAILED", "h:1", 2, "why"))


@pytest.mark.parametrize(
    "key",
    [
        b"session-key",
        b"tasks-fencing-c",
        b"logger-cluster-org.apache",
        b"task-c",
        b"task-c-x",
        b"task--1",
        b"",
        b"\xff\xfe",
    ],
)
def test_keys_that_are_not_for_us_are_passed_over(key: bytes) -> None:
    assert decode_config_row(key, b"whatever") is None
    assert decode_status_row(key, b"whatever") is None


@pytest.mark.parametrize(
    ("decode", "key"),
    [
        (decode_config_row, b"connector-c"),
        (decode_config_row, b"task-c-0"),
        (decode_config_row, b"commit-c"),
        (decode_config_row, b"target-state-c"),
        (decode_status_row, b"status-connector-c"),
        (decode_status_row, b"status-task-c-0"),
        (decode_status_row, b"status-topic-t:connector-c"),
    ],
)
@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b"{}",
        b'{"properties":{"a":1},"tasks":"2","state":3}',
        b'{"properties":[],"tasks":-1,"topic":{}}',
        b'{"properties":{"a":"\\ud800"},"tasks":true}',
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_a_value_that_is_not_connects_is_told_without_being_shown(
    decode: Callable[[bytes, bytes], Any], key: bytes, value: bytes
) -> None:
    with pytest.raises(CorruptRecord, match=key.decode()) as told:
        decode(key, value)
    assert "properties" not in str(told.value)


CONFIG_ROWS: st.SearchStrategy[ConfigRow] = st.one_of(
    st.builds(ConnectorRow, NAMES, st.none() | PROPERTIES),
    st.builds(TaskRow, NAMES, NUMBERS, st.none() | PROPERTIES),
    st.builds(CommitRow, NAMES, st.none() | NUMBERS),
    st.builds(TargetStateRow, NAMES, st.none() | st.sampled_from(["STARTED", "PAUSED", "STOPPED"])),
    st.builds(RestartRow, NAMES, st.booleans(), st.booleans()),
)
STATUSES = st.none() | st.builds(
    Status, TEXT, TEXT, NUMBERS, st.none() | TEXT, st.none() | st.just("4.3.1")
)
STATUS_ROWS: st.SearchStrategy[StatusRow] = st.one_of(
    st.builds(ConnectorStatusRow, NAMES, STATUSES),
    st.builds(TaskStatusRow, NAMES, NUMBERS, STATUSES),
    st.builds(TopicRow, NAMES, st.from_regex(r"[a-zA-Z0-9._-]+", fullmatch=True), NUMBERS, NUMBERS),
)


@given(CONFIG_ROWS)
def test_config_rows_survive_the_way_there_and_back(row: ConfigRow) -> None:
    assert decode_config_row(*encode_config_row(row)) == row


@given(STATUS_ROWS)
def test_status_rows_survive_the_way_there_and_back(row: StatusRow) -> None:
    assert decode_status_row(*encode_status_row(row)) == row
