"""kafka-python's codecs, for brokers that may lie.

What it compiles from Kafka's schemas trusts the sender: a varint has no end, every structure with
tagged fields copies what is left of the frame, and a field that must not be null may be. Here the first
two are bounded as its own slower decoder bounds them, and the third is looked for.
"""

import io
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka.protocol.schemas.fields.codecs import UnsignedVarInt32
from kafka.protocol.schemas.fields.struct import StructField

from heliograph.errors import CorruptRecord
from heliograph.wire.compact import read_uvarint

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
_HOLDING: dict[tuple[int, int], list[tuple[str, bool, Any]]] = {}


@contextmanager
def misread(what: str) -> Iterator[None]:
    """Turn what goes wrong with a broker's answer into CorruptRecord; `what` begins its sentence."""
    try:
        yield
    except _NONSENSE as exc:
        raise CorruptRecord(f"{what} makes no sense ({type(exc).__name__}: {exc})") from exc


def decode_answer(request: Any, version: int, frame: memoryview, sender: str) -> Any:
    """Return the response to `request` in a frame; Any, because kafka-python's messages carry no types."""
    with misread(f"what {sender} answered to {request.name}"):
        kind = request.header.get_response_class()
        response = kind.decode(frame, version=version, header=True)
        _check_nulls(kind._struct, response, version)  # noqa: SLF001 - it has no other door
        return response


def _check_nulls(struct_field: Any, found: Any, version: int) -> None:
    for name, nullable, inner in _fields_that_hold(struct_field, version):
        value = getattr(found, name)
        if value is None:
            if not nullable:
                raise ValueError(f"{name} is null")
        elif inner is not None:
            for item in value if isinstance(value, list) else (value,):
                _check_nulls(inner, item, version)


def _fields_that_hold(struct_field: Any, version: int) -> list[tuple[str, bool, Any]]:
    """Return the fields whose bytes can say null, and what those that are structures are made of."""
    key = id(struct_field), version  # schemas live as long as the process, and have no hash
    known = _HOLDING.get(key)
    if known is not None:
        return known
    found = _HOLDING[key] = []
    for field in struct_field.untagged_fields(version):
        inner = field.array_of if field.is_struct_array() else field if field.is_struct() else None
        if inner is not None or field.is_array() or field.type_str in ("string", "bytes"):
            found.append((field.name, field.nullable_for_version_q(version), inner))
    return found


def _emit_varint(cls: Any, ctx: Any, name: str, indent: str) -> None:
    del cls
    ctx.globs["_read_uvarint"] = read_uvarint
    ctx.emit(indent, f"{name}, pos = _read_uvarint(data, pos)")


def _emit_tags(self: Any, ctx: Any, name: str, indent: str, version: int) -> None:
    tagged = ctx.next_var("tf")
    ctx.globs[tagged] = self.tagged_fields(version)
    ctx.globs["_read_tags"] = _read_tags
    ctx.emit(indent, f"pos = _read_tags({tagged}, {name}, data, pos, {version})")


def _read_tags(known: Any, into: Any, data: memoryview, at: int, version: int) -> int:
    """Set the tagged fields at `at` on `into`, and return where they end."""
    by_tag = {field.tag: field for field in known._fields}
    count, at = read_uvarint(data, at)
    for _ in range(count):
        tag, at = read_uvarint(data, at)
        size, at = read_uvarint(data, at)
        if size > len(data) - at:
            raise ValueError(f"a tagged field of {size} bytes in {len(data) - at}")
        field = by_tag.get(tag)
        if field is not None:
            content = io.BytesIO(bytes(data[at : at + size]))
            value = field.decode(content, version=version, compact=True, tagged=None)
            into.tags = {*(into.tags or ()), field.name}
            setattr(into, field.name, value)
        at += size
    return at


UnsignedVarInt32.emit_decode_from = classmethod(_emit_varint)
StructField._emit_tagged_decode = _emit_tags  # noqa: SLF001
