"""The messages of a driver and its tasks over a lease: a JSON object per line, `{"kind": content}`.

An `Order` goes from the driver to a task, a `Note` from a task to the driver. Either side matches on these
classes, and mypy checks that no kind is left out. Passwords of clusters travel in `Welcome` only, which
the driver sends after the task has shown the secret of the lease.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from heliograph.errors import CorruptRecord
from heliograph.model import (
    Endpoint,
    Position,
    ProducerIdentity,
    Sasl,
    StopKind,
    Tls,
    TopicPartition,
)

Runs: TypeAlias = tuple[tuple[int, int, int], ...]  # (upstream, downstream, count)


class Taken(NamedTuple):
    """Milliseconds of some records: the last one's, the lowest, the highest, their sum and how many."""

    last: float
    least: float
    most: float
    total: float
    records: int

    def __add__(self, later: "Taken") -> "Taken":  # type: ignore[override]  # sums, where tuples join
        return Taken(
            later.last,
            min(self.least, later.least),
            max(self.most, later.most),
            self.total + later.total,
            self.records + later.records,
        )


@dataclass(frozen=True, slots=True)
class Claim:
    """Which slice a task works on: the input that Spark gives it."""

    flow: str
    slice_index: int
    attempt: int
    host: str
    port: int
    secret: str


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds that a slice works in."""

    chunk_bytes: int
    partition_bytes: int
    in_flight_requests: int
    merge_bytes: int
    read_committed: bool


@dataclass(frozen=True, slots=True)
class Ledger:
    """Where a slice writes its positions and runs, in the same transactions as its records."""

    transactional_id: str
    topic: str
    partitions: int
    runs_topic: str
    connector: str
    cluster: str
    commit_seconds: float


@dataclass(frozen=True, slots=True)
class Share:
    """One partition of a slice. `resume` asks for a look at the remote tail before writing.

    With a `spread`, keys place its records in that many lanes. `leader_epoch` is that of the last
    record before the position, -1 if it is not known. `ours` says that no other writer writes to the remote partition.
    """

    slot: int
    source: TopicPartition
    topic_id: str
    remote: TopicPartition
    remote_id: str
    position: Position
    identity: ProducerIdentity
    sequence: int
    resume: bool
    max_message_bytes: int
    spread: int = 0
    leader_epoch: int = -1
    ours: bool = True
    segment: tuple[int, str] | None = None


@dataclass(frozen=True, slots=True)
class LaneShare:
    """A remote partition that all source partitions of its topic are placed into."""

    remote: TopicPartition
    identity: ProducerIdentity
    sequence: int
    max_message_bytes: int


# Orders: from the driver to a task.


@dataclass(frozen=True, slots=True)
class Welcome:
    """The answer to a Hello: how to reach both clusters, and the bounds to work in."""

    flow: str
    source: Endpoint
    target: Endpoint
    limits: Limits
    ledger: Ledger | None = None


@dataclass(frozen=True, slots=True)
class Take:
    """Copy these partitions as well."""

    shares: tuple[Share, ...]
    lanes: tuple[LaneShare, ...] = ()


@dataclass(frozen=True, slots=True)
class Leave:
    """Write what was read of these slots, and hand them over with a Left."""

    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Limit:
    """The remote topic of a slot now accepts batches of another size."""

    slot: int
    max_message_bytes: int


@dataclass(frozen=True, slots=True)
class Alive:
    """The answer to a Ping: the driver owns the flow. Write for so many seconds, counted from the Ping."""

    number: int
    seconds: float


@dataclass(frozen=True, slots=True)
class End:
    """Leave everything, then end."""


Order: TypeAlias = Welcome | Take | Leave | Limit | Alive | End

# Notes: from a task to the driver.


@dataclass(frozen=True, slots=True)
class Hello:
    """A task introduces itself; a later attempt at its slice has a higher number."""

    flow: str
    slice_index: int
    task: int
    secret: str


class SlotRead(NamedTuple):
    """How far a slot was read, where the source ends, and where its committed records end."""

    slot: int
    upstream: int
    end: int
    stable: int
    leader_epoch: int
    age: Taken | None


class SlotWritten(NamedTuple):
    """What the target has acknowledged of a slot: `records` and `size` since the last report."""

    slot: int
    upstream: int
    downstream: int
    sequence: int
    records: int
    size: int
    runs: Runs
    copied_ms: int
    took: Taken | None


@dataclass(frozen=True, slots=True)
class Report:
    """Progress. `waits` says, by slot, why slots make no progress now; `cpu_seconds` are the task's so far."""

    read: tuple[SlotRead, ...] = ()
    written: tuple[SlotWritten, ...] = ()
    verdicts: dict[str, int] | None = None
    latency: tuple[int, ...] = ()
    waits: dict[int, str] | None = None
    cpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Left:
    """These slots are handed over: all that was read of them is stored, and reported before this.

    `lanes` are the sequences of the lanes that this task no longer uses. With `behind`, the next task must look at
    their tails: these were not compared yet, or there is a `trouble` after which it is unknown what is stored.
    """

    slots: tuple[int, ...]
    lanes: tuple[tuple[str, int, int], ...] = ()
    behind: bool = False
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Stopped:
    """A slot does not continue. With `spent`, sequences were given to batches that were never stored."""

    slot: int
    upstream: int
    kind: StopKind
    reason: str
    resume: int = -1
    spent: bool = True


@dataclass(frozen=True, slots=True)
class Foreign:
    """The remote partition of a slot holds records of another writer."""

    slot: int
    reason: str


@dataclass(frozen=True, slots=True)
class Fenced:
    """Another writer has taken over; this task ends."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ping:
    """The task asks whether it may continue to write."""

    number: int


Note: TypeAlias = Hello | Report | Left | Stopped | Foreign | Fenced | Ping


_RUNS = SlotWritten._fields.index("runs")
_SENSELESS = (KeyError, TypeError, ValueError, AttributeError)


def encode_message(message: Order | Note) -> bytes:
    """Return a message as a line."""
    kind = type(message).__name__
    content = _encode_report(message) if isinstance(message, Report) else asdict(message)
    line = json.dumps({kind: content}, separators=(",", ":"), default=_encode_enum)
    return line.encode() + b"\n"


def decode_order(line: bytes) -> Order:
    """Return the driver's message; raise CorruptRecord for anything else."""
    try:
        return _order(*_open(line))
    except _SENSELESS as exc:
        raise _refuse("an order", line, exc) from exc


def _order(kind: str, content: dict[str, Any]) -> Order:
    match kind:
        case "Take":
            return Take(
                tuple(_share(share) for share in content["shares"]),
                tuple(_lane(lane) for lane in content["lanes"]),
            )
        case "Alive":
            return Alive(**content)
        case "Leave":
            return Leave(tuple(content["slots"]))
        case "Limit":
            return Limit(**content)
        case "End":
            return End()
        case "Welcome":
            return _welcome(content)
        case _:
            raise ValueError(f"no order is of the kind {kind[:40]!r}")


def decode_note(line: bytes) -> Note:
    """Return a task's message; raise CorruptRecord for anything else."""
    try:
        return _note(*_open(line))
    except _SENSELESS as exc:
        raise _refuse("a note", line, exc) from exc


def _refuse(what: str, line: bytes, exc: Exception) -> CorruptRecord:
    # The text of the exception may repeat the input, which may be long.
    return CorruptRecord(f"{what} of {len(line)} bytes makes no sense ({str(exc)[:200]})")


def _note(kind: str, content: dict[str, Any]) -> Note:
    decode = _NOTES.get(kind)
    if decode is None:
        raise ValueError(f"no note is of the kind {kind[:40]!r}")
    return decode(content)


def _open(line: bytes) -> tuple[str, dict[str, Any]]:
    try:
        ((kind, content),) = json.loads(line).items()
    except (ValueError, AttributeError, RecursionError) as exc:
        raise CorruptRecord(f"a line of {len(line)} bytes is no message") from exc
    if not isinstance(content, dict):
        raise CorruptRecord(f"a message of the kind {kind[:40]!r} has no content")
    return kind, content


def _hello(content: dict[str, Any]) -> Hello:
    hello = Hello(**content)
    kinds = (hello.flow, str), (hello.slice_index, int), (hello.task, int), (hello.secret, str)
    if any(type(value) is not kind for value, kind in kinds):
        raise TypeError("a field of a hello is of another type")
    hello.secret.encode("ascii")
    return hello


def _left(content: dict[str, Any]) -> Left:
    lanes = tuple((topic, index, sequence) for topic, index, sequence in content["lanes"])
    return Left(tuple(content["slots"]), lanes, content["behind"], content["trouble"])


def _stopped(content: dict[str, Any]) -> Stopped:
    return Stopped(**{**content, "kind": StopKind(content["kind"])})


def _encode_enum(value: object) -> str:
    if isinstance(value, StopKind):
        return str(value.value)
    raise TypeError(f"{type(value).__name__} is no part of a message")


def _encode_report(report: Report) -> dict[str, Any]:
    # `asdict` would copy each run, and named tuples are lists in JSON anyway.
    return {
        "read": report.read,
        # There may be thousands of runs: one list of numbers is read faster.
        "written": [
            [*row[:_RUNS], [*chain(*row.runs)], *row[_RUNS + 1 :]] for row in report.written
        ],
        "verdicts": report.verdicts,
        "latency": report.latency,
        "waits": report.waits,
        "cpu_seconds": report.cpu_seconds,
    }


def _report(content: dict[str, Any]) -> Report:
    waits = content["waits"]
    return Report(
        read=tuple(_slot_read(row) for row in content["read"]),
        written=tuple(_slot_written(row) for row in content["written"]),
        verdicts=content["verdicts"],
        latency=tuple(content["latency"]),
        waits=None if waits is None else {int(slot): why for slot, why in waits.items()},
        cpu_seconds=float(content["cpu_seconds"]),
    )


def _slot_read(row: list[Any]) -> SlotRead:
    read = SlotRead(*row)
    return read._replace(age=_taken(row[-1]))


def _slot_written(row: list[Any]) -> SlotWritten:
    written = SlotWritten(*row)
    numbers: Iterator[int] = iter(row[_RUNS])
    runs = tuple(zip(numbers, numbers, numbers, strict=True))
    return written._replace(runs=runs, took=_taken(row[-1]))


def _taken(found: list[Any] | None) -> Taken | None:
    return None if found is None else Taken(*found)


def _welcome(content: dict[str, Any]) -> Welcome:
    ledger = content["ledger"]
    return Welcome(
        flow=content["flow"],
        source=_endpoint(content["source"]),
        target=_endpoint(content["target"]),
        limits=Limits(**content["limits"]),
        ledger=None if ledger is None else Ledger(**ledger),
    )


def _endpoint(content: dict[str, Any]) -> Endpoint:
    return Endpoint(
        cluster=content["cluster"],
        bootstrap=tuple((host, port) for host, port in content["bootstrap"]),
        client_id=content["client_id"],
        tls=_tls(content["tls"]) if content["tls"] else None,
        sasl=_sasl(content["sasl"]) if content["sasl"] else None,
    )


def _sasl(content: dict[str, Any]) -> Sasl:
    options = tuple((key, value) for key, value in content["options"])
    return Sasl(content["mechanism"], options, _tls(content["tls"]) if content["tls"] else None)


def _tls(content: dict[str, Any]) -> Tls:
    lists = {name: tuple(content[name]) for name in ("protocols", "cipher_suites")}
    return Tls(**{**content, **lists})


def _share(content: dict[str, Any]) -> Share:
    return Share(
        **{
            **content,
            "source": TopicPartition(**content["source"]),
            "remote": TopicPartition(**content["remote"]),
            "position": Position(**content["position"]),
            "identity": ProducerIdentity(**content["identity"]),
            "segment": None if content["segment"] is None else tuple(content["segment"]),
        }
    )


def _lane(content: dict[str, Any]) -> LaneShare:
    return LaneShare(
        **{
            **content,
            "remote": TopicPartition(**content["remote"]),
            "identity": ProducerIdentity(**content["identity"]),
        }
    )


_NOTES: dict[str, Callable[[dict[str, Any]], Note]] = {
    "Hello": _hello,
    "Report": _report,
    "Left": _left,
    "Stopped": _stopped,
    "Foreign": lambda content: Foreign(**content),
    "Fenced": lambda content: Fenced(**content),
    "Ping": lambda content: Ping(**content),
}
