"""Decoding of brokers' answers by kafka-python's schemas, but with our own decoder, because a broker may lie.

The decoders that kafka-python compiles from its schemas trust the sender: a varint has no maximum length, every
structure with tagged fields copies the rest of the frame, and a field that must not be null may be. Here nothing is
read beyond the frame, and a null where none is allowed is an error. Its schemas and message classes are used unchanged.
"""

import io
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias
from uuid import UUID

from kafka.protocol.metadata import ApiVersionsResponse

from heliograph.errors import CorruptRecord
from heliograph.wire.compact import read_uvarint

Read: TypeAlias = Callable[[memoryview, int], tuple[Any, int]]

_NONSENSE = (
    struct.error,
    ValueError,
    IndexError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
    AssertionError,
)
_FIXED = {
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "bool": "?",
}
_LONGEST_HEADER = 1024
_NIL = UUID(int=0)
_known: dict[tuple[int, int], Read] = {}  # message classes live as long as the process


@contextmanager
def misread(what: str) -> Iterator[None]:
    """Turn errors in reading a broker's answer into CorruptRecord; `what` begins its message."""
    try:
        yield
    except _NONSENSE as exc:
        raise CorruptRecord(f"{what} makes no sense ({type(exc).__name__}: {exc})") from exc


def decode_answer(request: Any, version: int, frame: memoryview, sender: str) -> Any:
    """Return the response to `request` in a frame; Any, because kafka-python's messages carry no types."""
    with misread(f"what {sender} answered to {request.name}"):
        kind = request.header.get_response_class()
        header = io.BytesIO(bytes(frame[:_LONGEST_HEADER]))
        parsed = kind.parse_header(header, version=version)
        at = header.tell()
        if kind is ApiVersionsResponse and bytes(frame[at : at + 2]) != b"\0\0":
            version = (
                0  # a broker that does not know the requested version reports that in version 0
            )
        response, _ = _decoder_of(kind, version)(frame, at)
        response._header = parsed  # noqa: SLF001 - as kafka-python makes it
        return response


def _decoder_of(kind: Any, version: int) -> Read:
    """Return the decoder of a message class and version."""
    key = id(kind), version
    if key not in _known:
        flexible = bool(kind.flexible_version_q(version))
        schema = kind._struct  # noqa: SLF001 - there is no public access
        _known[key] = _structure(schema, kind[None], version, compact=flexible, tagged=flexible)
    return _known[key]


def _structure(
    schema: Any, made_of: Any, version: int, *, compact: bool, tagged: bool | None
) -> Read:
    """Return the decoder of a structure; one inside a tag has no tags itself (`tagged` is None)."""
    parts = [
        (field.name, _value(field, version, compact=compact, tagged=tagged))
        for field in schema.untagged_fields(version)
    ]
    tags = {
        field.tag: (field.name, _value(field, version, compact=True, tagged=None))
        for field in (schema.tagged_fields(version)._fields if tagged else ())
    }

    def read(data: memoryview, at: int) -> tuple[Any, int]:
        made = object.__new__(made_of)
        made._version = version
        made.tags = made.unknown_tags = None
        for name, value in parts:
            content, at = value(data, at)
            setattr(made, name, content)
        if tagged:
            at = _read_tags(tags, made, data, at)
        elif tagged is None:
            at += 1  # an empty list of tags is one byte
        return made, at

    return read


def _read_tags(tags: dict[int, tuple[str, Read]], made: Any, data: memoryview, at: int) -> int:
    """Set the tagged fields at `at`, and return where they end; unknown fields are skipped."""
    count, at = read_uvarint(data, at)
    for _ in range(count):
        tag, at = read_uvarint(data, at)
        size, at = read_uvarint(data, at)
        end = _end_of("a tagged field", data, at, size)
        if tag in tags:
            name, value = tags[tag]
            content, _ = value(data[:end], at)
            setattr(made, name, content)
            made.tags = {*(made.tags or ()), name}
        at = end
    return at


def _value(field: Any, version: int, *, compact: bool, tagged: bool | None) -> Read:
    """Return the decoder of a field's value."""
    nullable = bool(field.nullable_for_version_q(version))
    if field.is_array():
        inner = field.array_of
        item = (
            _structure(inner, inner.data_class, version, compact=compact, tagged=tagged)
            if field.is_struct_array()
            else _simple(inner, compact=compact, nullable=False)
        )
        return _array(field.name, item, compact=compact, nullable=nullable)
    if field.is_struct():
        content = _structure(field, field.data_class, version, compact=compact, tagged=tagged)
        return _or_null(content) if nullable else content
    return _simple(field, compact=compact, nullable=nullable)


def _or_null(content: Read) -> Read:
    def read(data: memoryview, at: int) -> tuple[Any, int]:
        return (None, at + 1) if data[at] == 0xFF else content(data, at + 1)

    return read


def _array(name: str, item: Read, *, compact: bool, nullable: bool) -> Read:
    size_of = _size("i", compact=compact)

    def read(data: memoryview, at: int) -> tuple[Any, int]:
        count, at = size_of(data, at)
        if count < 0:
            return _nothing(name, at, nullable=nullable)
        _end_of(name, data, at, count)  # each item takes at least one byte
        items = []
        for _ in range(count):
            content, at = item(data, at)
            items.append(content)
        return items, at

    return read


def _simple(field: Any, *, compact: bool, nullable: bool) -> Read:
    kind = field.type_str.removeprefix("[]")
    if kind in _FIXED:
        return _fixed(_FIXED[kind])
    if kind == "uuid":
        return _uuid
    if kind == "string":
        return _sized(field.name, "h", _text, compact=compact, nullable=nullable)
    if kind in ("bytes", "records"):
        return _sized(field.name, "i", bytes, compact=compact, nullable=nullable)
    codec = field._type  # noqa: SLF001 - a bit field, which kafka-python puts in place of a number
    return lambda data, at: (codec.decode(io.BytesIO(data[at : at + codec.size])), at + codec.size)


def _fixed(form: str) -> Read:
    packed = struct.Struct(f">{form}")
    unpack, size = packed.unpack_from, packed.size
    return lambda data, at: (unpack(data, at)[0], at + size)


def _uuid(data: memoryview, at: int) -> tuple[Any, int]:
    found = UUID(bytes=bytes(data[at : at + 16]))
    return None if found == _NIL else found, at + 16


def _text(data: memoryview) -> str:
    return str(data, "utf-8")


def _sized(
    name: str, form: str, content: Callable[[memoryview], Any], *, compact: bool, nullable: bool
) -> Read:
    size_of = _size(form, compact=compact)

    def read(data: memoryview, at: int) -> tuple[Any, int]:
        size, at = size_of(data, at)
        if size < 0:
            return _nothing(name, at, nullable=nullable)
        end = _end_of(name, data, at, size)
        return content(data[at:end]), end

    return read


def _size(form: str, *, compact: bool) -> Read:
    """Return the decoder of a length; below 0 means null."""
    if not compact:
        return _fixed(form)

    def read(data: memoryview, at: int) -> tuple[Any, int]:
        size, at = read_uvarint(data, at)
        return size - 1, at

    return read


def _nothing(name: str, at: int, *, nullable: bool) -> tuple[None, int]:
    if not nullable:
        raise ValueError(f"{name} is null")
    return None, at


def _end_of(what: str, data: memoryview, at: int, size: int) -> int:
    """Return where `size` bytes from `at` on end, which must be in the frame."""
    end = at + size
    if end > len(data):
        raise ValueError(f"{what} of {size} bytes in {len(data) - at}")
    return end
