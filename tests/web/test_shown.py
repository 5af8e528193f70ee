import pytest

from heliograph.observe.shown import MOST_BYTES, Shown, show, show_record
from heliograph.wire.records import RawRecord, encode_body


@pytest.mark.parametrize(
    ("data", "text", "encoding"),
    [
        (b"", "", "utf-8"),
        ("größer\t\r\n".encode(), "größer\t\r\n", "utf-8"),
        (b"<script>", "<script>", "utf-8"),
        (b"a\0b", "610062", "hex"),
        (b"\x1b[31m", "1b5b33316d", "hex"),
        (b"\x7f", "7f", "hex"),
        ("\x9b".encode(), "c29b", "hex"),
        (b"\xed\xa0\x80", "eda080", "hex"),
        (b"caf\xc3", "636166c3", "hex"),
    ],
)
def test_only_clean_text_is_shown_as_text(data: bytes, text: str, encoding: str) -> None:
    shown = show(data)
    assert shown is not None
    assert (shown.text, shown.encoding, shown.size, shown.cut) == (text, encoding, len(data), False)


def test_a_character_that_the_cut_goes_through_is_left_out() -> None:
    data = b"x" + "é".encode() * MOST_BYTES
    assert show(data) == Shown("x" + "é" * (MOST_BYTES // 2 - 1), "utf-8", len(data), True)
    assert show(b"\xff" * (MOST_BYTES + 1)) == Shown("ff" * MOST_BYTES, "hex", MOST_BYTES + 1, True)
    assert show(b"a" * MOST_BYTES) == Shown("a" * MOST_BYTES, "utf-8", MOST_BYTES, False)


def test_what_is_null_is_shown_as_null() -> None:
    assert show(None) is None
    shown = show_record(RawRecord(1, 2, 0, encode_body(None, None, [(b"\xff", None)])))
    assert (shown.key, shown.value, shown.decoded) == (None, None, None)
    assert (shown.headers[0].name, shown.headers[0].value) == ("ff", None)


def test_a_record_whose_parts_cannot_be_told_is_shown_as_bytes() -> None:
    shown = show_record(RawRecord(1, 2, 0, b"\xff\xff"))
    assert shown.value == Shown("ffff", "hex", 2, False)
