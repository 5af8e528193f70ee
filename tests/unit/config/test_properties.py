import pickle
from pathlib import Path

import javaproperties
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.config.mistakes import InvalidSetting, UnreadableFile
from heliograph.config.properties import (
    Origin,
    Written,
    parse_json,
    parse_properties,
    read_properties,
)

# Java's own reading of each line, by java.util.Properties.
LINES = [
    (b"a=1", {"a": "1"}),
    (b"a = 1 ", {"a": "1 "}),
    (b"a:1", {"a": "1"}),
    (b"a 1", {"a": "1"}),
    (b"a\t=\t1", {"a": "1"}),
    (b"a", {"a": ""}),
    (b"a=1 # not a comment", {"a": "1 # not a comment"}),
    (b"# comment\n! comment\n  # comment\na=1", {"a": "1"}),
    (rb"topics.exclude=.*[\-\.]internal", {"topics.exclude": ".*[-.]internal"}),
    (rb"t=a\\.b", {"t": r"a\.b"}),
    (rb"a\:b\ c=1", {"a:b c": "1"}),
    (b"a=1,\\\n    2,\\\r\n\t3", {"a": "1,2,3"}),
    (b"a=1\\", {"a": "1"}),
    (rb"a=\u00e9\t\n", {"a": "é\t\n"}),
    (b"a=\xe9", {"a": "é"}),
    (b"A->B.enabled=true", {"A->B.enabled": "true"}),
    (b"a==1", {"a": "=1"}),
    (b"\n\n\ta=1\r\rb=2", {"a": "1", "b": "2"}),
    (b"a=1\n# c \\\nb=2", {"a": "1", "b": "2"}),
]


@pytest.mark.parametrize(("content", "expected"), LINES)
def test_a_line_loads_as_java_loads_it(content: bytes, expected: dict[str, str]) -> None:
    assert parse_properties(content, "f").entries == expected


@given(st.dictionaries(st.text(), st.text()))
def test_what_java_stores_is_what_is_loaded(props: dict[str, str]) -> None:
    content = javaproperties.dumps(props, timestamp=None).encode("latin-1")
    assert parse_properties(content, "f").entries == props


def test_a_value_knows_its_line_through_comments_and_continuations() -> None:
    found = parse_properties(b"# one\na=1,\\\n  2\n\nb=3\r\nc=4", "mm2.properties").entries
    assert [str(value.origin) for value in found.values()] == [
        "mm2.properties:2",
        "mm2.properties:5",
        "mm2.properties:6",
    ]


def test_the_later_of_two_equal_keys_counts_and_is_reported() -> None:
    found = parse_properties(b"a=1\nb=2\na=3", "f")
    assert found.entries["a"] == "3"
    assert found.warnings == ("f:3: a was already set in line 1; this one counts",)


def test_a_bad_unicode_escape_names_its_line() -> None:
    with pytest.raises(UnreadableFile, match=r"f:2: \\u12 is not a character"):
        parse_properties(b"a=1\nb=\\u12", "f")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match=r"none\.properties: cannot be read"):
        read_properties(tmp_path / "none.properties")


def test_a_written_value_survives_pickling_with_its_origin() -> None:
    value = pickle.loads(pickle.dumps(Written("x", Origin("f", 3, "k"), secret=True)))
    assert (value, value.origin, value.secret) == ("x", Origin("f", 3, "k"), True)


@pytest.mark.parametrize(
    "content",
    [
        b'{"name": "c", "config": {"tasks.max": 2, "enabled": false, "x": null}}',
        b'{"name": "c", "tasks.max": "2", "enabled": false}',
    ],
)
def test_a_connector_is_flat_or_wrapped(content: bytes) -> None:
    assert parse_json(content, "f").entries == {"name": "c", "tasks.max": "2", "enabled": "false"}


def test_json_values_know_their_line() -> None:
    found = parse_json(b'{\n "name": "c",\n "topics" : "t"\n}', "c.json").entries
    assert str(found["topics"].origin) == "c.json:3"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{\n"a": "1",\n}', "c.json:3: not JSON here"),
        (b"[]", "c.json:1: a connector is an object"),
        (b'{"a": "\xff"}', "c.json: not UTF-8 at byte 7"),
    ],
)
def test_broken_json_names_its_line(content: bytes, message: str) -> None:
    with pytest.raises(UnreadableFile) as caught:
        parse_json(content, "c.json")
    assert str(caught.value).startswith(message)


def test_a_nested_value_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="a text, a number or true/false"):
        parse_json(b'{"topics": ["a"]}', "c.json")
