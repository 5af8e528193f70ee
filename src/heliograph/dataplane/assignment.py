"""What a task is told to do: values that travel from the driver over the lease, as JSON."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from heliograph.model import Endpoint, Flow, Position, ProducerIdentity, Sasl, Tls, TopicPartition


@dataclass(frozen=True, slots=True)
class Claim:
    """Who a task says it is; both workers of one task attempt send the same `task`."""

    flow: str
    slice_index: int
    epoch: int
    task: int
    role: str
    secret: str


@dataclass(frozen=True, slots=True)
class Share:
    """One partition of a slice. `resume` asks for a look at the remote tail before writing.

    With a `spread` its records are placed by key in so many lanes of the assignment. `leader_epoch` is that of
    the last record before the position, -1 if it is not known.
    """

    slot: int
    source: TopicPartition
    topic_id: str
    remote: TopicPartition
    position: Position
    identity: ProducerIdentity
    sequence: int
    resume: bool
    max_message_bytes: int
    spread: int = 0
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class LaneShare:
    """A remote partition that all source partitions of its topic are placed into."""

    remote: TopicPartition
    identity: ProducerIdentity
    sequence: int
    max_message_bytes: int


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds that a slice works in."""

    epoch_seconds: float
    chunk_bytes: int
    partition_bytes: int
    in_flight_requests: int
    merge_bytes: int
    read_committed: bool


@dataclass(frozen=True, slots=True)
class Ledger:
    """Where a slice writes its positions, in the same transactions as its records.

    `remote_ids` are those of its shares, by slot.
    """

    transactional_id: str
    topic: str
    partitions: int
    connector: str
    cluster: str
    commit_seconds: float
    remote_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What a job is given once, when it is made; `key` tells it from all others of this driver."""

    flow: Flow
    key: str
    source: Endpoint
    target: Endpoint
    transactional_id: str
    limits: Limits
    slices: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """All that a worker process needs to know, and nothing live."""

    flow: str
    endpoint: Endpoint
    limits: Limits
    shares: tuple[Share, ...]
    lanes: tuple[LaneShare, ...] = ()
    ledger: Ledger | None = None

    def encode(self) -> dict[str, Any]:
        return asdict(self)


def decode_assignment(data: dict[str, Any]) -> Assignment:
    endpoint = data["endpoint"]
    return Assignment(
        flow=data["flow"],
        endpoint=Endpoint(
            cluster=endpoint["cluster"],
            bootstrap=tuple((host, port) for host, port in endpoint["bootstrap"]),
            client_id=endpoint["client_id"],
            tls=_decode_tls(endpoint["tls"]) if endpoint["tls"] else None,
            sasl=_decode_sasl(endpoint["sasl"]) if endpoint["sasl"] else None,
        ),
        limits=Limits(**data["limits"]),
        shares=tuple(_decode_share(share) for share in data["shares"]),
        lanes=tuple(_decode_lane(lane) for lane in data["lanes"]),
        ledger=_decode_ledger(data["ledger"]) if data["ledger"] else None,
    )


def _decode_sasl(data: dict[str, Any]) -> Sasl:
    options = tuple((key, value) for key, value in data["options"])
    return Sasl(data["mechanism"], options, _decode_tls(data["tls"]) if data["tls"] else None)


def _decode_tls(data: dict[str, Any]) -> Tls:
    lists = {name: tuple(data[name]) for name in ("protocols", "cipher_suites")}
    return Tls(**{**data, **lists})


def _decode_share(data: dict[str, Any]) -> Share:
    return Share(
        slot=data["slot"],
        source=TopicPartition(**data["source"]),
        topic_id=data["topic_id"],
        remote=TopicPartition(**data["remote"]),
        position=Position(**data["position"]),
        identity=ProducerIdentity(**data["identity"]),
        sequence=data["sequence"],
        resume=data["resume"],
        max_message_bytes=data["max_message_bytes"],
        spread=data["spread"],
        leader_epoch=data["leader_epoch"],
    )


def _decode_ledger(data: dict[str, Any]) -> Ledger:
    return Ledger(**{**data, "remote_ids": tuple(data["remote_ids"])})


def _decode_lane(data: dict[str, Any]) -> LaneShare:
    return LaneShare(
        remote=TopicPartition(**data["remote"]),
        identity=ProducerIdentity(**data["identity"]),
        sequence=data["sequence"],
        max_message_bytes=data["max_message_bytes"],
    )


def encode_line(message: dict[str, Any]) -> bytes:
    """Return one message of the lease: JSON on a line of its own."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"
