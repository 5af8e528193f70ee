"""What is heliograph's own, and the two consumer keys it reads."""

from datetime import timedelta

from heliograph.config.fields import (
    COUNT,
    SECONDS,
    Field,
    Kind,
    NotAllowed,
    Part,
    one_of,
    whole,
)

_CONSUMER = (Part.CONSUMER,)
_OURS = (Part.SOURCE, Part.OURS)

ISOLATION_LEVEL = Field(
    "isolation.level",
    one_of("read_committed", "read_uncommitted"),
    "read_committed",
    "Written source.consumer.isolation.level; committed records only, where MM2 copies aborted ones too.",
    _CONSUMER,
)
AUTO_OFFSET_RESET = Field(
    "auto.offset.reset",
    one_of("earliest", "latest", "none"),
    "earliest",
    "Written source.consumer.auto.offset.reset; where a partition without a position starts.",
    _CONSUMER,
)

CONSUMER: tuple[Field[object], ...] = (ISOLATION_LEVEL, AUTO_OFFSET_RESET)


CHUNK_MAX_BYTES = Field(
    "chunk.max.bytes",
    COUNT,
    4194304,
    "Most bytes that are asked of a broker at a time; twice as many may wait to be stored.",
    _OURS,
)
PARTITION_FETCH_MAX_BYTES = Field(
    "partition.fetch.max.bytes",
    COUNT,
    2097152,
    "Most bytes asked of one partition at a time.",
    _OURS,
)
MAX_IN_FLIGHT_REQUESTS = Field(
    "max.in.flight.requests",
    whole("INT", 1, 5),
    5,
    "Produce requests a partition may have under way.",
    _OURS,
)
ON_LOSS = Field(
    "on.loss",
    one_of("stop", "continue"),
    "stop",
    "What to do when the source has deleted records not yet mirrored, a topic was deleted and recreated, or a "
    "remote topic holds records that this flow knows nothing of.",
    _OURS,
)
MERGE_MAX_BYTES = Field(
    "merge.max.bytes", COUNT, 262144, "Batches smaller than this in all are written as one.", _OURS
)
OPEN_TRANSACTION_SECONDS = Field(
    "open.transaction.seconds",
    SECONDS,
    timedelta(seconds=30),
    "Seconds for which a transaction may keep a source partition from being copied before log, status and "
    "metrics name it; -1: never. Raise it where transactions take long, as those of Flink do.",
    _OURS,
)


def _partitions(text: str) -> str | int:
    word = text.strip().lower()
    if word in ("source", "target"):
        return word
    try:
        return COUNT.parse(text)
    except NotAllowed:
        raise NotAllowed("source, target, or a whole number above 0") from None


TARGET_PARTITIONS: Field[str | int] = Field(
    "target.partitions",
    Kind("STRING", _partitions),
    "source",
    "How many partitions a remote topic has: as many as its source; its own (target), or its own and this number "
    "where it is made. Where they differ, keys place records.",
    _OURS,
)

OWN: tuple[Field[object], ...] = (
    CHUNK_MAX_BYTES,
    PARTITION_FETCH_MAX_BYTES,
    MAX_IN_FLIGHT_REQUESTS,
    ON_LOSS,
    MERGE_MAX_BYTES,
    OPEN_TRANSACTION_SECONDS,
    TARGET_PARTITIONS,
)
