"""Heliograph's own settings, and the two consumer keys it reads."""

from datetime import timedelta
from enum import StrEnum

from heliograph.config.fields import (
    COUNT,
    SECONDS,
    Field,
    Kind,
    NotAllowed,
    Part,
    Settings,
    choice,
    whole,
)


class IsolationLevel(StrEnum):
    """Which records are copied."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class OffsetReset(StrEnum):
    """Where a partition without a position starts."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


class OnLoss(StrEnum):
    """What happens to a partition whose source or target lost records."""

    STOP = "stop"
    CONTINUE = "continue"


def _partitions(text: str) -> str | int:
    word = text.strip().lower()
    if word in ("source", "target"):
        return word
    try:
        return COUNT.parse(text)
    except NotAllowed:
        raise NotAllowed("source, target, or a whole number above 0") from None


class CopySettings(Settings, by=(Part.SOURCE, Part.OURS)):
    """How records are copied; heliograph's own keys."""

    chunk_max_bytes = Field(
        "chunk.max.bytes",
        COUNT,
        4194304,
        "Most bytes that are asked of a broker at a time; twice as many may wait to be stored.",
    )
    partition_fetch_max_bytes = Field(
        "partition.fetch.max.bytes", COUNT, 2097152, "Most bytes asked of one partition at a time."
    )
    max_in_flight_requests = Field(
        "max.in.flight.requests",
        whole("INT", 1, 5),
        5,
        "Produce requests a partition may have under way.",
    )
    on_loss = Field(
        "on.loss",
        choice(OnLoss),
        OnLoss.STOP,
        "What to do when the source has deleted records not yet mirrored, a topic was deleted and recreated, or a "
        "remote topic holds records that this flow knows nothing of.",
    )
    merge_max_bytes = Field(
        "merge.max.bytes", COUNT, 262144, "Batches smaller than this in all are written as one."
    )
    open_transaction_after = Field(
        "open.transaction.seconds",
        SECONDS,
        timedelta(seconds=30),
        "Seconds for which a transaction may keep a source partition from being copied before log, status and "
        "metrics name it; -1: never. Raise it where transactions take long, as those of Flink do.",
    )
    target_partitions: Field[str | int] = Field(
        "target.partitions",
        Kind("STRING", _partitions),
        "source",
        "How many partitions a remote topic has: as many as its source; its own (target), or its own and this number "
        "where it is made. Where they differ, keys place records.",
    )

    @property
    def goes_on_after_loss(self) -> bool:
        """Whether copying of a partition that lost records continues without them."""
        return self.on_loss is OnLoss.CONTINUE

    @property
    def keeps_partitions(self) -> bool:
        """Whether remote topics have the partitions of their sources."""
        return self.target_partitions == "source"


class ReadSettings(Settings, by=(Part.CONSUMER,)):
    """How the source is read."""

    isolation_level = Field(
        "isolation.level",
        choice(IsolationLevel),
        IsolationLevel.READ_COMMITTED,
        "Written source.consumer.isolation.level; committed records only, where MM2 copies aborted ones too.",
    )
    auto_offset_reset = Field(
        "auto.offset.reset",
        choice(OffsetReset),
        OffsetReset.EARLIEST,
        "Written source.consumer.auto.offset.reset; where a partition without a position starts.",
    )

    @property
    def committed_only(self) -> bool:
        """Whether records of aborted transactions are left out."""
        return self.isolation_level is IsolationLevel.READ_COMMITTED
