import pytest

from heliograph.errors import CorruptRecord
from heliograph.model import TopicPartition
from heliograph.wire.hold_records import Hold, Phase, Range, decode_hold, encode_hold


def test_a_hold_is_read_as_it_was_written() -> None:
    hold = Hold(
        "A->B",
        1789000000000,
        Phase.RETURNING,
        frozenset({"billing", "ä"}),
        "replay",
        {TopicPartition("t", 3): Range(10, 25, 12, 7), TopicPartition("ä.b", 0): Range(0, 1, 0, 0)},
    )
    assert decode_hold(*encode_hold(hold)) == hold


def test_a_hold_says_since_when_in_words() -> None:
    assert Hold("A->B", 1789000000000).since == "2026-09-10 00:26:40 UTC"


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{}",
        b"[]",
        b'{"since":"x","phase":"failed over","groups":[],"action":null,"ranges":[]}',
        b'{"since":1,"phase":"gone","groups":[],"action":null,"ranges":[]}',
        b'{"since":1,"phase":"reversed","groups":[],"action":null,"ranges":[[1]]}',
    ],
)
def test_what_is_no_hold_is_refused(value: bytes) -> None:
    with pytest.raises(CorruptRecord, match="does not say that a flow is held"):
        decode_hold(b"A->B", value)
