"""What workers of a group report to their leader, and what it assigns: JSON inside Kafka's group protocol.

    member to leader   {"version":1,"url":"http://h:8083/","generation":4,"connectors":["a"]}
    leader to member   {"version":1,"leader":"http://h:8083/","connectors":["a"],"owners":{"a":"http://h:8083/"}}

A later version may add members to either; it must not change the meaning of these.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from heliograph.errors import CorruptRecord


@dataclass(frozen=True, slots=True)
class Told:
    """What a worker runs, since which generation, and where its REST interface is."""

    url: str
    connectors: frozenset[str] = frozenset()
    generation: int = -1


@dataclass(frozen=True, slots=True)
class Given:
    """What a worker must run, and the REST interface of the leader and of each connector's worker."""

    leader_url: str
    connectors: frozenset[str]
    owners: Mapping[str, str] = field(default_factory=dict)


def encode_told(told: Told) -> bytes:
    return _encode(url=told.url, generation=told.generation, connectors=sorted(told.connectors))


def decode_told(data: bytes) -> Told:
    match _decode(data):
        case {"url": str(url), "generation": int(generation), "connectors": list(names)}:
            if _are_texts(names):
                return Told(url, frozenset(names), generation)
    raise _corrupt(data)


def encode_given(given: Given) -> bytes:
    names = sorted(given.connectors)
    return _encode(leader=given.leader_url, connectors=names, owners=dict(given.owners))


def decode_given(data: bytes) -> Given:
    """Return what a leader assigned; empty data means nothing to run."""
    if not data:
        return Given("", frozenset())
    match _decode(data):
        case {"leader": str(url), "connectors": list(names), "owners": dict(owners)}:
            if _are_texts(names) and _are_texts(owners.values()):
                return Given(url, frozenset(names), owners)
    raise _corrupt(data)


def _encode(**members: object) -> bytes:
    return json.dumps({"version": 1, **members}, separators=(",", ":")).encode()


def _decode(data: bytes) -> object:
    try:
        found = json.loads(data)
        json.dumps(found, ensure_ascii=False).encode()  # half a surrogate pair is not text
    except (ValueError, RecursionError) as exc:
        raise _corrupt(data) from exc
    return found


def _are_texts(found: Iterable[object]) -> bool:
    return all(isinstance(its, str) for its in found)


def _corrupt(data: bytes) -> CorruptRecord:
    return CorruptRecord(
        f"a worker of this group said {data[:100]!r}, which is not heliograph's. "
        "Run the same version on all workers."
    )
