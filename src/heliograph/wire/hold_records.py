"""The hold of a flow, as JSON in a compacted topic of its target, keyed by the flow.

    key     A->B
    value   {"since":1789000000000,"phase":"failed over","groups":["billing"],"action":null,"ranges":[]}

It is the journal of fail-over and fail-back: each finds in it what it did before it was interrupted.
"""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum

from heliograph.errors import CorruptRecord
from heliograph.model import TopicPartition

_INT64_MAX = (1 << 63) - 1
_LAST_MS = 253_402_300_799_000  # the year 9999, the last that a datetime has


class Phase(Enum):
    """How far a flow is in its fail-over and fail-back."""

    FAILED_OVER = "failed over"
    RETURNING = "returning"
    REVERSED = "reversed"


@dataclass(frozen=True, slots=True)
class Range:
    """How far a partition was copied: all before `start`, to before `downstream`.

    From `start` to `end` the source holds what was not copied; copies of that are written at
    `copies_from` or later.
    """

    start: int
    end: int
    downstream: int
    copies_from: int


@dataclass(frozen=True, slots=True)
class Hold:
    """A flow that must not copy, and the groups that moved away from its source.

    `ranges` and `action` are what a fail-back has decided.
    """

    flow: str
    since_ms: int
    phase: Phase = Phase.FAILED_OVER
    groups: frozenset[str] = frozenset()
    action: str | None = None
    ranges: dict[TopicPartition, Range] = field(default_factory=dict)

    @property
    def since(self) -> str:
        moment = datetime.fromtimestamp(self.since_ms / 1000, UTC)
        return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def encode_hold(hold: Hold) -> tuple[bytes, bytes]:
    value = {
        "since": hold.since_ms,
        "phase": hold.phase.value,
        "groups": sorted(hold.groups),
        "action": hold.action,
        "ranges": [
            [p.topic, p.index, its.start, its.end, its.downstream, its.copies_from]
            for p, its in sorted(hold.ranges.items())
        ],
    }
    return hold.flow.encode(), json.dumps(value, separators=(",", ":")).encode()


def _text(found: object) -> str:
    if not isinstance(found, str):
        raise TypeError(found)
    found.encode()  # half a surrogate pair is not text
    return found


def _whole(found: object, highest: int = _INT64_MAX) -> int:
    if type(found) is not int or not -1 <= found <= highest:
        raise ValueError(found)
    return found


def decode_hold(key: bytes, value: bytes) -> Hold:
    try:
        found = json.loads(value)
        return Hold(
            flow=key.decode(),
            since_ms=_whole(found["since"], _LAST_MS),
            phase=Phase(found["phase"]),
            groups=frozenset(map(_text, found["groups"])),
            action=None if found["action"] is None else _text(found["action"]),
            ranges={
                TopicPartition(_text(topic), _whole(index)): Range(*map(_whole, numbers))
                for topic, index, *numbers in found["ranges"]
            },
        )
    except (ValueError, KeyError, TypeError, RecursionError) as exc:
        raise CorruptRecord(
            f"{key[:100]!r} holds {value[:100]!r}, which does not say that a flow is held. "
            "Check what else writes to this topic."
        ) from exc
