"""The records inside a v2 batch, moved to another batch without decoding key, value or headers.

    record   varint length of the rest | int8 attributes | varlong timestamp delta | varint offset delta | body
    body     varint key length | key | varint value length | value | varint header count | headers
    header   varint name length | name | varint value length | value

Varints are zigzag; length -1 means null. Only the fields before the body depend on the batch,
so a body is copied as it is.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from crc32c import crc32c

from heliograph.errors import CorruptRecord
from heliograph.wire.primitives import Buffer, decode_varint, encode_varint
from heliograph.wire.record_batch import CRC_FROM, HEADER_SIZE, LOG_OVERHEAD, LONE, LONE_BYTES

Header = tuple[bytes, bytes | None]

_TABLE_SIZE = 8192  # the zigzag varints of two bytes end here
_VARINTS = [encode_varint(number) for number in range(_TABLE_SIZE)]
_STAMPS = [b"\0" + varint for varint in _VARINTS]  # no attributes, then a timestamp delta
_INT64_END = 1 << 63


class RawRecord(NamedTuple):
    """A record freed from its batch: offset and timestamp are absolute, the body is opaque."""

    offset: int
    timestamp: int
    attributes: int
    body: bytes


class Content(NamedTuple):
    """What a body holds, for display."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


def split_records(
    payload: Buffer, count: int, base_offset: int, base_timestamp: int, append_time: int | None
) -> list[RawRecord]:
    """Return the records of an uncompressed payload.

    `append_time` is the batch's max timestamp if its timestamp type is LogAppendTime: then it
    replaces the timestamp of every record.
    """
    records: list[RawRecord] = []
    try:
        for stamp, delta, attributes, body in _walk(bytes(payload), count):
            timestamp = _timestamp(base_timestamp, stamp) if append_time is None else append_time
            records.append(RawRecord(base_offset + delta, timestamp, attributes, body))
    except CorruptRecord as exc:
        raise _corrupt(base_offset, exc) from exc
    return records


def join_records(records: Sequence[RawRecord]) -> tuple[bytes, int, int]:
    """Return a payload of `records` without holes, its base timestamp and its max timestamp."""
    builder = RecordsBuilder()
    for record in records:
        builder.add(record.timestamp, record.attributes, record.body)
    return builder.finish(), builder.base_timestamp, builder.max_timestamp


class RecordsBuilder:
    """Merges the payloads of small batches into one, with offset deltas 0, 1, 2 and so on.

    It keeps views of its input until `finish`, so the underlying buffers must not change.
    """

    __slots__ = ("_parts", "base_timestamp", "count", "max_timestamp", "size")

    def __init__(self) -> None:
        self.count = 0
        self.size = 0
        self.base_timestamp = -1
        self.max_timestamp = -1
        self._parts: list[Buffer] = []

    def add_batch(self, payload: Buffer, count: int, base_offset: int, base_timestamp: int) -> None:
        """Append all records of an uncompressed payload, or none and raise CorruptRecord."""
        if count == 1:
            size = len(payload)
            start, at = _LONE_RECORDS[size]
            if payload[:at] == start:
                # The only record, without attributes, stamped with the batch's own time: the batch of
                # a producer that does not linger. Deciding by comparison halves the time per record.
                added = self.count
                if not added:
                    self.base_timestamp = self.max_timestamp = base_timestamp
                elif base_timestamp > self.max_timestamp:
                    self.max_timestamp = base_timestamp
                delta = base_timestamp - self.base_timestamp
                if 0 <= delta < _TABLE_SIZE and added < _TABLE_SIZE:
                    stamp, offset = _STAMPS[delta], _VARINTS[added]
                    length = size - at + len(stamp) + len(offset)
                    prefix = _VARINTS[length] if length < _TABLE_SIZE else encode_varint(length)
                    self._parts += (prefix, stamp, offset, payload[at:])
                    self.count = added + 1
                    self.size += len(prefix) + length
                    return
        self.add_with_holes(bytes(payload), count, base_offset, base_timestamp, None)

    def add_with_holes(
        self,
        data: bytes,
        count: int,
        base_offset: int,
        base_timestamp: int,
        append_time: int | None,
    ) -> list[tuple[int, int]]:
        """Append all records of an uncompressed payload, or none and raise CorruptRecord; return their offsets.

        Offsets that follow one another are one (first, count). `append_time` is as for `split_records`.
        """
        parts, kept = self._parts, len(self._parts)
        try:
            spans, size, base, newest = self._renumber(
                data, count, base_offset, base_timestamp, append_time
            )
        except (CorruptRecord, IndexError) as exc:
            del parts[kept:]
            told = (
                exc
                if isinstance(exc, CorruptRecord)
                else CorruptRecord("the bytes end inside a number")
            )
            raise _corrupt(base_offset, told) from exc
        self.count += count
        self.size += size
        self.base_timestamp, self.max_timestamp = base, newest
        return spans

    def _renumber(  # noqa: C901, PLR0912, PLR0915 - calls would cost more than the work
        self,
        data: bytes,
        count: int,
        base_offset: int,
        base_timestamp: int,
        append_time: int | None,
    ) -> tuple[list[tuple[int, int]], int, int, int]:
        """Append parts for records under their next offset deltas; return spans, bytes, and both times.

        One loop: a compacted topic has a hole after every other record, and each costs a microsecond here.
        """
        add, added = self._parts.extend, self.count
        base, newest = self.base_timestamp, self.max_timestamp
        at, end, last, size = 0, len(data), -1, 0
        spans: list[tuple[int, int]] = []
        first = follows = base_offset
        for place in range(added, added + count):
            length = data[at]
            at += 1
            if length >= 0x80:
                byte = data[at]
                if byte < 0x80:
                    length = length & 0x7F | byte << 7
                    at += 1
                else:
                    length, at = decode_varint(data, at - 1, bits=32)
                    length = 2 * length if length >= 0 else -2 * length - 1
            stop = at + (length >> 1)
            if length & 1 or not at < stop <= end:
                claim, left = length >> 1 ^ -(length & 1), end - at
                raise CorruptRecord(f"a record claims {claim} bytes where {left} are left")
            attributes = data[at]
            stamp = data[at + 1]
            if stamp < 0x80:
                stamp, at = stamp >> 1 ^ -(stamp & 1), at + 2
            else:
                stamp, at = decode_varint(data, at + 1, bits=64)
            delta = data[at]
            at += 1
            if delta < 0x80:
                delta = delta >> 1 ^ -(delta & 1)
            else:
                byte = data[at]
                if byte < 0x80:
                    delta = delta & 0x7F | byte << 7
                    delta, at = delta >> 1 ^ -(delta & 1), at + 1
                else:
                    delta, at = decode_varint(data, at - 1, bits=32)
            if at > stop:
                raise CorruptRecord(f"a record ends {at - stop} bytes too early")
            if delta <= last:
                raise CorruptRecord(f"offset delta {delta} follows {last}")
            last = delta
            offset = base_offset + delta
            if offset != follows:
                if follows > first:
                    spans.append((first, follows - first))
                first = offset
            follows = offset + 1
            time = _timestamp(base_timestamp, stamp) if append_time is None else append_time
            if not place:
                base = newest = time
            elif time > newest:
                newest = time
            since = time - base
            if 0 <= since < _TABLE_SIZE and not attributes:
                head = _STAMPS[since]
            else:
                head = bytes([attributes]) + encode_varint(since)
            number = _VARINTS[place] if place < _TABLE_SIZE else encode_varint(place)
            own = len(head) + len(number) + stop - at
            prefix = _VARINTS[own] if own < _TABLE_SIZE else encode_varint(own)
            add((prefix, head, number, data[at:stop]))
            size += len(prefix) + own
            at = stop
        if at != end:
            raise CorruptRecord(f"{end - at} bytes are left after {count} records")
        if follows > first:
            spans.append((first, follows - first))
        return spans, size, base, newest

    def add_lone(  # noqa: C901 - calls would cost more than the work
        self, data: bytes, at: int, room: int, spans: list[tuple[int, int]]
    ) -> tuple[int, bool]:
        """Append the records of whole batches of one, as long as they are ordinary and `room` bytes hold them.

        Returns where it stopped, and whether for lack of room; appends the offsets to `spans`. One loop over
        thousands of headers, a microsecond each: the general path reports why a batch is refused.
        """
        parts, size, added = self._parts, self.size, self.count
        base, newest = self.base_timestamp, self.max_timestamp
        first, count = spans.pop() if spans else (0, 0)
        end, read = len(data), LONE.unpack_from
        full = False
        while end - at >= HEADER_SIZE:
            offset, length, magic, crc, attributes, delta, time, records = read(data, at)
            body, stop = at + HEADER_SIZE, at + LOG_OVERHEAD + length
            if attributes or records != 1 or delta or magic != 2 or offset < 0:
                break
            if not body < stop <= end or length > LONE_BYTES:
                break
            start, skipped = _LONE_RECORDS[stop - body]
            if (
                not skipped
                or not data.startswith(start, body, stop)
                or crc32c(data[at + CRC_FROM : stop]) != crc
            ):
                break
            if size + length > room or added >= _TABLE_SIZE:
                full = True
                break
            if not added:
                base = newest = time
            elif time > newest:
                newest = time
            since = time - base
            stamp = _STAMPS[since] if 0 <= since < _TABLE_SIZE else b"\0" + encode_varint(since)
            place = _VARINTS[added]
            own = stop - body - skipped + len(stamp) + len(place)
            prefix = _VARINTS[own] if own < _TABLE_SIZE else encode_varint(own)
            parts += (prefix, stamp, place, data[body + skipped : stop])
            size += len(prefix) + own
            added += 1
            if offset == first + count:
                count += 1
            else:
                if count:
                    spans.append((first, count))
                first, count = offset, 1
            at = stop
        if count:
            spans.append((first, count))
        self.size, self.count = size, added
        self.base_timestamp, self.max_timestamp = base, newest
        return at, full

    def add(self, timestamp: int, attributes: int, body: bytes) -> None:
        """Append one record."""
        added = self.count
        if not added:
            self.base_timestamp = self.max_timestamp = timestamp
        elif timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        delta = timestamp - self.base_timestamp
        if 0 <= delta < _TABLE_SIZE and not attributes:
            stamp = _STAMPS[delta]
        else:
            stamp = bytes([attributes & 0xFF]) + encode_varint(delta)
        offset = _VARINTS[added] if added < _TABLE_SIZE else encode_varint(added)
        length = len(stamp) + len(offset) + len(body)
        prefix = _VARINTS[length] if length < _TABLE_SIZE else encode_varint(length)
        self._parts += (prefix, stamp, offset, body)
        self.count = added + 1
        self.size += len(prefix) + length

    def finish(self) -> bytes:
        """Return the payload of everything added."""
        return b"".join(self._parts)


def encode_body(key: bytes | None, value: bytes | None, headers: Iterable[Header] = ()) -> bytes:
    """Return the body of a record."""
    listed = tuple(headers)
    parts = [_encode_bytes(key), _encode_bytes(value), encode_varint(len(listed))]
    for name, content in listed:
        parts += (_encode_bytes(name), _encode_bytes(content))
    return b"".join(parts)


def decode_body(body: Buffer) -> Content:
    """Return key, value and headers of a body."""
    data = bytes(body)
    key, at = _decode_bytes(data, 0)
    value, at = _decode_bytes(data, at)
    count, at = decode_varint(data, at, bits=32)
    if not 0 <= count <= len(data) - at:
        raise CorruptRecord(
            f"a record claims {count} headers where {len(data) - at} bytes are left."
        )
    headers: list[Header] = []
    for _ in range(count):
        name, at = _decode_bytes(data, at)
        if name is None:
            raise CorruptRecord("a record has a header without a name.")
        content, at = _decode_bytes(data, at)
        headers.append((name, content))
    if at != len(data):
        raise CorruptRecord(f"a record has {len(data) - at} bytes after its last header.")
    return Content(key, value, tuple(headers))


def _walk(data: bytes, count: int) -> Iterable[tuple[int, int, int, bytes]]:
    """Yield timestamp delta, offset delta, attributes and body of each record."""
    at, end, last = 0, len(data), -1
    for _ in range(count):
        length, at = decode_varint(data, at, bits=32)
        stop = at + length
        if not at < stop <= end:
            raise CorruptRecord(f"a record claims {length} bytes where {end - at} are left")
        attributes = data[at]
        stamp, at = decode_varint(data, at + 1, bits=64)
        delta, at = decode_varint(data, at, bits=32)
        if at > stop:
            raise CorruptRecord(f"a record ends {at - stop} bytes too early")
        if delta <= last:
            raise CorruptRecord(f"offset delta {delta} follows {last}")
        last = delta
        yield stamp, delta, attributes, data[at:stop]
        at = stop
    if at != end:
        raise CorruptRecord(f"{end - at} bytes are left after {count} records")


def _timestamp(base: int, delta: int) -> int:
    timestamp = base + delta
    if not -_INT64_END <= timestamp < _INT64_END:
        # Nonsense, but a consumer in Java would see it wrapped, so the copy wraps too.
        timestamp = (timestamp + _INT64_END) % (2 * _INT64_END) - _INT64_END
    return timestamp


def _corrupt(base_offset: int, exc: CorruptRecord) -> CorruptRecord:
    return CorruptRecord(f"the batch at upstream offset {base_offset} is corrupt: {exc}.")


def _encode_bytes(data: bytes | None) -> bytes:
    return b"\x01" if data is None else encode_varint(len(data)) + data


def _decode_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = decode_varint(data, at, bits=32)
    if length == -1:
        return None, at
    end = at + length
    if not at <= end <= len(data):
        raise CorruptRecord(f"a record claims {length} bytes where {len(data) - at} are left.")
    return data[at:end], end


class _LoneRecords(dict[int, tuple[bytes, int]]):
    """By size of a payload, how it starts if it is one ordinary record, and where the body starts.

    Filled as small sizes turn up, so it stays small.
    """

    def __missing__(self, size: int) -> tuple[bytes, int]:
        for width in (1, 2, 3, 4, 5):
            prefix = encode_varint(size - width)
            if len(prefix) == width:
                start = prefix + b"\0\0\0"  # no attributes, timestamp delta 0, offset delta 0
                if size < _TABLE_SIZE:
                    self[size] = start, len(start)
                return start, len(start)
        return b"\xff", 0  # no record has this size


_LONE_RECORDS = _LoneRecords()
