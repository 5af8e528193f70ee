import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.errors import CorruptRecord
from heliograph.model import TopicPartition
from heliograph.wire.connect_records import (
    SourceKey,
    SourceOffset,
    decode_source_key,
    decode_source_offset,
    encode_source_key,
    encode_source_offset,
)

CONNECTOR = "MirrorSourceConnector"
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
offsets = st.integers(0, (1 << 63) - 1)


def test_the_key_has_the_bytes_that_java_looks_up() -> None:
    assert (
        encode_source_key(CONNECTOR, "A", "t", 0)
        == b'["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"t"}]'
    )


def test_text_is_escaped_as_jackson_does() -> None:
    key = encode_source_key('a"\\/', "\x00\x1f\b\t\n\f\r\x7f", "é☃\U0001f600", 1)
    assert (
        key
        == (
            '["a\\"\\\\/",{"cluster":"\\u0000\\u001F\\b\\t\\n\\f\\r\x7f",'
            '"partition":1,"topic":"é☃\\uD83D\\uDE00"}]'
        ).encode()
    )


@given(texts, texts, texts, st.integers(0, (1 << 31) - 1))
def test_keys_survive_the_wire(connector: str, cluster: str, topic: str, index: int) -> None:
    key = encode_source_key(connector, cluster, topic, index)
    assert decode_source_key(key) == SourceKey(connector, cluster, TopicPartition(topic, index))
    assert json.loads(key)[1] == {"cluster": cluster, "partition": index, "topic": topic}


@pytest.mark.parametrize(
    "key",
    [
        None,
        b"",
        b"\xff",
        b"null",
        b'"text"',
        b"[]",
        b'["MirrorCheckpointConnector",{"partition":0,"topic":"A.t","group":"g"}]',
        b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]',
        b'["x",{"filename":"/var/log/x"}]',
        b'["x",{"cluster":"A","partition":0,"topic":"t","more":1}]',
        b'["x",{"cluster":"A","partition":true,"topic":"t"}]',
        b'["x",{"cluster":"A","partition":-1,"topic":"t"}]',
        b'["x",{"cluster":"A","partition":"0","topic":"t"}]',
        b'["x",{"cluster":"A","partition":0,"topic":"\\ud800"}]',
        b"[" * 100_000,
    ],
)
def test_a_key_of_somebody_else_is_no_source_key(key: bytes | None) -> None:
    assert decode_source_key(key) is None


@given(st.binary(max_size=60))
def test_any_bytes_are_a_key_or_none(data: bytes) -> None:
    decode_source_key(data)


def test_offsets_on_the_wire_are_the_last_ones_copied() -> None:
    assert encode_source_offset(SourceOffset(42, 58)) == b'{"offset":41,"downstream":57}'
    assert encode_source_offset(SourceOffset(42, None)) == b'{"offset":41}'
    assert decode_source_offset(b'{"offset":41,"downstream":57}') == SourceOffset(42, 58)


def test_an_offset_of_mirrormaker_has_no_downstream() -> None:
    assert decode_source_offset(b'{"offset":41}') == SourceOffset(42, None)
    assert decode_source_offset(b'{"offset":0}') == SourceOffset(1, None)


@given(offsets, offsets, st.none() | st.uuids().map(str), st.integers(-1, 2**31 - 1))
def test_positions_survive_the_wire(
    upstream: int, downstream: int, topic_id: str | None, leader_epoch: int
) -> None:
    offset = SourceOffset(upstream, downstream, topic_id, leader_epoch=leader_epoch)
    assert decode_source_offset(encode_source_offset(offset)) == offset


def test_a_position_names_the_topic_by_its_id_as_well() -> None:
    value = encode_source_offset(SourceOffset(42, 58, "0f-1"))
    assert value == b'{"offset":41,"downstream":57,"topicId":"0f-1"}'


@pytest.mark.parametrize(
    "value", [None, b"null", b"{}", b'{"offset":null}', b'{"offset":-1}', b'{"other":3}']
)
def test_without_an_offset_there_is_no_position(value: bytes | None) -> None:
    assert decode_source_offset(value) is None


@pytest.mark.parametrize("downstream", ['"x"', "null", "true", "1.5", "-2", "9223372036854775808"])
def test_a_downstream_that_is_not_ours_is_ignored(downstream: str) -> None:
    assert decode_source_offset(
        f'{{"offset":4,"downstream":{downstream}}}'.encode()
    ) == SourceOffset(5, None)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff",
        b"{",
        b"[]",
        b"41",
        b'{"offset":"41"}',
        b'{"offset":4.0}',
        b'{"offset":true}',
        b'{"offset":9223372036854775808}',
        b"[" * 100_000,
    ],
)
def test_a_value_that_is_no_position_is_corrupt(value: bytes) -> None:
    with pytest.raises(CorruptRecord, match="which is no position"):
        decode_source_offset(value)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_position_or_corrupt(data: bytes) -> None:
    with contextlib.suppress(CorruptRecord):
        decode_source_offset(data)
