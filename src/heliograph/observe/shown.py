"""Bytes of records for a person to read: text where they are text, else hex, and only the first of them."""

import unicodedata
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal

from heliograph.config.flow import FlowConfig
from heliograph.config.naming import naming_of
from heliograph.errors import CorruptRecord
from heliograph.policy.naming import NamingPolicy, runs_topic
from heliograph.wire.mirror_records import decode_checkpoint, decode_heartbeat, decode_offset_sync
from heliograph.wire.records import Header, RawRecord, decode_body
from heliograph.wire.run_records import decode_segment, decode_segment_key

MOST_BYTES: Final = 4096
MOST_HEADERS: Final = 50
_LAYOUT: Final = "\t\n\r"

Decode = Callable[[bytes | None, bytes | None], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Shown:
    """The first bytes of something that is `size` bytes long."""

    text: str
    encoding: Literal["utf-8", "hex"]
    size: int
    cut: bool


@dataclass(frozen=True, slots=True)
class HeaderShown:
    name: str
    value: Shown | None


@dataclass(frozen=True, slots=True)
class RecordShown:
    """A record; of `header_count` headers only the first are shown."""

    offset: int
    timestamp_ms: int
    key: Shown | None
    value: Shown | None
    headers: list[HeaderShown]
    header_count: int
    decoded: dict[str, Any] | None


def show_record(record: RawRecord, decode: Decode | None = None) -> RecordShown:
    """Return a record as it is shown; a record of a MirrorMaker topic is also shown decoded."""
    key: bytes | None
    headers: tuple[Header, ...]
    try:
        key, value, headers = decode_body(record.body)
    except CorruptRecord:
        key, value, headers = None, record.body, ()
    decoded = None
    if decode is not None and key is not None and value is not None:
        with suppress(CorruptRecord):
            decoded = decode(key, value)
    return RecordShown(
        record.offset,
        record.timestamp,
        show(key),
        show(value),
        [HeaderShown(_name(name), show(content)) for name, content in headers[:MOST_HEADERS]],
        len(headers),
        decoded,
    )


def show(data: bytes | None) -> Shown | None:
    """Return bytes as text if they are UTF-8 without control characters, else as hex."""
    if data is None:
        return None
    first = data[:MOST_BYTES]
    cut = len(data) > len(first)
    try:
        # The cut may split a character: then that is left out, not an error.
        text = getincrementaldecoder("utf-8")().decode(first, final=not cut)
    except UnicodeDecodeError:
        return Shown(first.hex(), "hex", len(data), cut)
    if any(unicodedata.category(c) == "Cc" and c not in _LAYOUT for c in text):
        return Shown(first.hex(), "hex", len(data), cut)
    return Shown(text, "utf-8", len(data), cut)


def decoder_of(topic: str, flows: Iterable[FlowConfig]) -> Decode | None:
    """Return the decoder for the records of a topic that these flows keep for themselves."""
    for config in flows:
        naming = naming_of(config)
        aliases = config.flow.source, config.flow.target
        if topic in [naming.offset_syncs_topic(alias) for alias in aliases]:
            return _offset_sync
        if topic in [runs_topic(naming, alias) for alias in aliases]:
            return _runs
        if (decode := _decoder_by_kind(naming, topic)) is not None:
            return decode
    return None


def _decoder_by_kind(naming: NamingPolicy, topic: str) -> Decode | None:
    if naming.is_checkpoints_topic(topic):
        return _checkpoint
    return _heartbeat if naming.is_heartbeats_topic(topic) else None


def _offset_sync(key: bytes | None, value: bytes | None) -> dict[str, Any]:
    sync = decode_offset_sync(key, value)
    return {
        "kind": "offset-sync",
        "topic": sync.partition.topic,
        "partition": sync.partition.index,
        "upstream": sync.upstream,
        "downstream": sync.downstream,
    }


def _checkpoint(key: bytes | None, value: bytes | None) -> dict[str, Any]:
    checkpoint = decode_checkpoint(key, value)
    return {
        "kind": "checkpoint",
        "group": checkpoint.group,
        "topic": checkpoint.partition.topic,
        "partition": checkpoint.partition.index,
        "upstream": checkpoint.upstream,
        "downstream": checkpoint.downstream,
        "metadata": checkpoint.metadata[:MOST_BYTES],
    }


def _heartbeat(key: bytes | None, value: bytes | None) -> dict[str, Any]:
    beat = decode_heartbeat(key, value)
    return {
        "kind": "heartbeat",
        "source": beat.source,
        "target": beat.target,
        "timestamp_ms": beat.timestamp_ms,
    }


def _runs(key: bytes | None, value: bytes | None) -> dict[str, Any]:
    partition, upstream = decode_segment_key(key)
    segment = decode_segment(upstream, value or b"")
    return {
        "kind": "runs",
        "topic": partition.topic,
        "partition": partition.index,
        "upstream": upstream,
        "downstream": segment.runs[0].downstream,
        "upstream_end": segment.runs[-1].upstream_end,
        "downstream_end": segment.runs[-1].downstream_end,
        "runs": len(segment.runs),
        "detached": segment.detached,
    }


def _name(name: bytes) -> str:
    shown = show(name)
    return "" if shown is None else shown.text
