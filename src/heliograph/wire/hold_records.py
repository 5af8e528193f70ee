"""That a flow is held, as JSON in a compacted topic of its target, keyed by the flow.

    key     A->B
    value   {"since":1789000000000,"phase":"failed over","tail":"replay","ranges":{...},"returns":{...}}

It is the journal of fail-over and fail-back: either finds in it what it did before it was interrupted.
"""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum

from heliograph.errors import CorruptRecord
from heliograph.model import TopicPartition


class Phase(Enum):
    """How far a flow is on its way out and back."""

    FAILED_OVER = "failed over"
    RETURNING = "returning"
    REVERSED = "reversed"


@dataclass(frozen=True, slots=True)
class Range:
    """Upstream offsets that never left the source, and where their copies begin to be put."""

    start: int
    end: int
    copies_from: int


@dataclass(frozen=True, slots=True)
class Hold:
    """A flow that must not copy; `ranges` and `action` are what a fail-back has decided."""

    flow: str
    since_ms: int
    phase: Phase = Phase.FAILED_OVER
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
        "action": hold.action,
        "ranges": [
            [p.topic, p.index, its.start, its.end, its.copies_from]
            for p, its in sorted(hold.ranges.items())
        ],
    }
    return hold.flow.encode(), json.dumps(value, separators=(",", ":")).encode()


def decode_hold(key: bytes, value: bytes) -> Hold:
    try:
        found = json.loads(value)
        return Hold(
            flow=key.decode(),
            since_ms=int(found["since"]),
            phase=Phase(found["phase"]),
            action=found["action"],
            ranges={
                TopicPartition(str(topic), int(index)): Range(int(start), int(end), int(copies))
                for topic, index, start, end, copies in found["ranges"]
            },
        )
    except (ValueError, KeyError, TypeError, RecursionError) as exc:
        raise CorruptRecord(
            f"{key[:100]!r} holds {value[:100]!r}, which does not say that a flow is held. "
            "Check what else writes to this topic."
        ) from exc
