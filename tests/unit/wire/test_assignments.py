import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.errors import CorruptRecord
from heliograph.model import TopicPartition
from heliograph.wire.assignments import decode_assignment
from heliograph.wire.group_description import decode_response, encode_request
from heliograph.wire.primitives import encode_string


def _encode(assigned: dict[str, list[int]]) -> bytes:
    topics = [
        encode_string(topic) + struct.pack(f">i{len(indexes)}i", len(indexes), *indexes)
        for topic, indexes in assigned.items()
    ]
    return struct.pack(">hi", 1, len(topics)) + b"".join(topics) + struct.pack(">i", -1)


@given(st.dictionaries(st.text(max_size=9), st.lists(st.integers(0, 99), max_size=4), max_size=4))
def test_an_assignment_is_read_as_clients_write_it(assigned: dict[str, list[int]]) -> None:
    expected = [TopicPartition(topic, i) for topic, indexes in assigned.items() for i in indexes]
    assert decode_assignment(_encode(assigned)) == expected


def test_a_member_that_waits_has_nothing() -> None:
    assert decode_assignment(b"") == []


@given(st.binary(max_size=60))
def test_any_bytes_are_an_assignment_or_corrupt(data: bytes) -> None:
    with contextlib.suppress(CorruptRecord):
        decode_assignment(data)


@pytest.mark.parametrize("size", range(6, 20))
def test_a_cut_assignment_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptRecord):
        decode_assignment(_encode({"t": [0, 1], "u": [2]})[:size])


def test_a_request_names_one_group() -> None:
    assert encode_request("g") == b"\x02\x02g\x00\x00"


@given(st.binary(max_size=80))
def test_any_bytes_are_a_description_or_corrupt(data: bytes) -> None:
    with contextlib.suppress(CorruptRecord):
        decode_response(memoryview(data))
