"""Source positions as Kafka Connect keeps them in its offsets topic, one compacted key per partition.

    key     ["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"t"}]
    value   {"offset":41,"downstream":57,"topicId":"6f1c...","remoteTopicId":"90a2..."}

Connect looks a position up by the bytes of its key, so the order of the members and the way of
escaping are Java's. `offset` is the last upstream offset that was copied. The others are our addition:
`downstream`, where that record went, and the ids of the two topics, which differ if a topic is recreated
under the same name. MirrorMaker 2 ignores them, and drops them when it writes the key itself.
"""

import json
from typing import NamedTuple

from heliograph.errors import CorruptRecord
from heliograph.model import TopicPartition
from heliograph.wire.java_json import quote

_MEMBERS = {"cluster", "partition", "topic"}
_INT32_MAX = (1 << 31) - 1
_INT64_MAX = (1 << 63) - 1


class SourceKey(NamedTuple):
    """What a position belongs to; `partition` names the upstream topic."""

    connector: str
    cluster: str
    partition: TopicPartition


class SourceOffset(NamedTuple):
    """A saved position, as next offsets; what MirrorMaker 2 wrote has only the first.

    `leader_epoch` is that of the source's leader that wrote the record before it, -1 if it is not known.
    """

    upstream: int
    downstream: int | None = None
    topic_id: str | None = None
    remote_id: str | None = None
    leader_epoch: int = -1


def encode_source_key(connector: str, cluster: str, topic: str, partition: int) -> bytes:
    return (
        f"[{quote(connector)},"
        f'{{"cluster":{quote(cluster)},"partition":{partition},"topic":{quote(topic)}}}]'
    ).encode()


def decode_source_key(key: bytes | None) -> SourceKey | None:
    """Return the key of a source position; None for any other key that Connect may keep there."""
    try:
        match json.loads((key or b"").decode()):
            case [
                str(connector),
                {"cluster": str(cluster), "partition": int(index), "topic": str(topic)} as members,
            ]:
                pass
            case _:
                return None
        # A lone surrogate can be escaped in JSON, but is not text.
        f"{connector}{cluster}{topic}".encode()
    except (ValueError, RecursionError):
        return None
    if members.keys() != _MEMBERS or isinstance(index, bool) or not 0 <= index <= _INT32_MAX:
        return None
    return SourceKey(connector, cluster, TopicPartition(topic, index))


def encode_source_offset(offset: SourceOffset) -> bytes:
    """Return a position as the last offsets that were copied; what is unknown is left out."""
    members = [f'"offset":{offset.upstream - 1}']
    if offset.downstream is not None:
        members.append(f'"downstream":{offset.downstream - 1}')
    if offset.topic_id is not None:
        members.append(f'"topicId":{quote(offset.topic_id)}')
    if offset.remote_id is not None:
        members.append(f'"remoteTopicId":{quote(offset.remote_id)}')
    if offset.leader_epoch >= 0:
        members.append(f'"leaderEpoch":{offset.leader_epoch}')
    return f"{{{','.join(members)}}}".encode()


def decode_source_offset(value: bytes | None) -> SourceOffset | None:
    """Return a position; None if there is none: a tombstone, or no offset, or a negative one.

    An offset of -1 together with our own member says that nothing was copied yet, and where the first record goes.
    """
    try:
        found = None if value is None else json.loads(value.decode())
        json.dumps(found, ensure_ascii=False).encode()  # half a surrogate pair is not text
    except (ValueError, RecursionError) as exc:
        raise _corrupt(value) from exc
    match found:
        case None:
            return None
        case {"offset": int(offset)} if type(offset) is int and offset <= _INT64_MAX:
            downstream = _downstream(found.get("downstream"))
            if offset < -1 or (offset == -1 and downstream is None):
                return None
            return SourceOffset(
                offset + 1,
                downstream,
                _text(found.get("topicId")),
                _text(found.get("remoteTopicId")),
                _leader_epoch(found.get("leaderEpoch")),
            )
        case dict() if found.get("offset") is None:
            return None
        case _:
            raise _corrupt(value)


def _leader_epoch(epoch: object) -> int:
    return epoch if type(epoch) is int and 0 <= epoch <= _INT32_MAX else -1


def _downstream(last: object) -> int | None:
    """Return the next downstream offset; a member of this name that is not ours counts as absent."""
    return last + 1 if type(last) is int and -1 <= last <= _INT64_MAX else None


def _text(found: object) -> str | None:
    return found if isinstance(found, str) else None


def _corrupt(value: bytes | None) -> CorruptRecord:
    return CorruptRecord(
        f"the offsets topic holds {(value or b'')[:200]!r}, which is no position. "
        "Reset the connector's offsets, or name another offsets topic."
    )
