"""The cases of `heliograph bench`, each a line; what they share is in data, steady and idle."""

from dataclasses import dataclass

from bench.data import LINE_BYTES, Filled
from bench.figures import CATCH_UP, COLD, IDLE, LARGE, STEADY, Column


@dataclass(frozen=True, slots=True)
class Steady:
    rate: int


@dataclass(frozen=True, slots=True)
class Idle:
    topics: int
    partitions: int = 4


@dataclass(frozen=True, slots=True)
class Case:
    """What is measured; `limits` are those of the limits that can do it too."""

    name: str
    about: str
    load: Filled | Steady | Idle
    limits: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        match self.load:
            case Steady():
                return STEADY
            case Idle():
                return IDLE
            case Filled(records=None, record_bytes=size):
                return CATCH_UP if size == LINE_BYTES else LARGE
        return COLD


_BATCHES: dict[str, object] = {"batch.size": 65536, "linger.ms": 50, "batch.num.messages": 100_000}
_MANY = {**_BATCHES, "linger.ms": 2000, "queue.buffering.max.messages": 1_500_000}
_SINGLE: dict[str, object] = {"linger.ms": 0, "batch.num.messages": 1}
_LARGE = {**_BATCHES, "message.max.bytes": 2_000_000}
_COMMITTED = {"isolation.level": "read_committed"}
_ALL = ("pump", "go")


def _batches(compression: str) -> Filled:
    return Filled({**_BATCHES, "compression.type": compression}, compression)


CASES = {
    case.name: case
    for case in (
        Case("plain", "catch-up, 64 KB batches, 6 partitions", _batches("none"), _ALL),
        Case("lz4", "the same, lz4", _batches("lz4"), _ALL),
        Case("zstd", "the same, zstd", _batches("zstd"), _ALL),
        Case("single", "one-record batches", Filled(_SINGLE, share=0.1), ("go",)),
        Case("10kb", "records of 10 KB", Filled(_BATCHES, record_bytes=10_000), _ALL),
        Case("900kb", "records of 900 KB", Filled(_LARGE, record_bytes=900_000), _ALL),
        Case(
            "transactions",
            "transactions of 100 records, every tenth aborted",
            Filled(share=0.1, kind="transactions", consumer=_COMMITTED),
        ),
        Case("compacted", "six of ten records compacted away", Filled(_BATCHES, kind="compacted")),
        Case("partitions-200", "plain's bytes in 200 partitions", Filled(_MANY, partitions=200)),
        Case("partitions-2000", "plain's bytes in 2,000", Filled(_MANY, partitions=2000)),
        Case("steady-500", "500 rec/s, produce to visible", Steady(500)),
        Case("steady-20000", "20,000 rec/s, produce to visible", Steady(20_000)),
        Case("idle-200", "nothing to do in 50 topics of 4 partitions", Idle(50)),
        Case("idle-2000", "nothing to do in 500 topics of 4 partitions", Idle(500)),
        Case("cold", "from the start to the first record", Filled(_BATCHES, records=1000)),
    )
}
QUICK = ("plain", "lz4", "single")


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of everything: records of the usual size, and seconds of watching."""

    records: int
    seconds: float
