import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.errors import CorruptRecord
from heliograph.wire.share_records import (
    Given,
    Told,
    decode_given,
    decode_told,
    encode_given,
    encode_told,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
NAMES = st.frozensets(TEXT, max_size=5)


@given(st.builds(Told, TEXT, NAMES, st.integers(-1, 2**31 - 1)))
def test_what_a_worker_tells_survives_the_way(told: Told) -> None:
    assert decode_told(encode_told(told)) == told


@given(st.builds(Given, TEXT, NAMES, st.dictionaries(TEXT, TEXT, max_size=5)))
def test_what_a_leader_gives_survives_the_way(given_: Given) -> None:
    assert decode_given(encode_given(given_)) == given_


def test_what_a_later_version_adds_is_read_past() -> None:
    told = b'{"version":2,"url":"u","generation":1,"connectors":["a"],"load":{"a":7}}'
    assert decode_told(told) == Told("u", frozenset("a"), 1)


def test_nothing_given_is_nothing_to_run() -> None:
    assert decode_given(b"") == Given("", frozenset())


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"version":1}', b"\x00\x01", b"\xff"])
def test_words_of_another_program_are_told(data: bytes) -> None:
    for decode in (decode_told, decode_given):
        with pytest.raises(CorruptRecord, match="same version on all workers"):
            decode(data)
