"""What the leader of a Kafka Connect cluster assigns to a worker, inside Kafka's group protocol; big-endian.

    version INT16 | error INT16 | leader STRING | leader's URL STRING | config offset INT64
    | count INT32 | per connector: name STRING, count INT32, tasks INT32 ...

A task of -1 is the connector itself. Later versions add to the end, and write a count of -1 for none.
"""

import struct

from heliograph.errors import CorruptRecord
from heliograph.wire.primitives import decode_string, excerpt

_I32 = struct.Struct(">i")
_CODES_SIZE = 4
_CONFIG_OFFSET_SIZE = 8


def decode_tasks(assignment: bytes) -> dict[str, list[int]]:
    """Return the tasks that a worker runs, by connector; the connector itself is not one of them."""
    found: dict[str, list[int]] = {}
    if not assignment:
        return found
    try:
        _, at = decode_string(assignment, _CODES_SIZE)
        _, at = decode_string(assignment, at)
        at += _CONFIG_OFFSET_SIZE
        connectors, at = _number(assignment, at)
        for _ in range(connectors):
            name, at = decode_string(assignment, at)
            count, at = _number(assignment, at)
            tasks = found.setdefault(name, [])
            for _ in range(count):
                task, at = _number(assignment, at)
                if task >= 0:
                    tasks.append(task)
    except struct.error as exc:
        raise CorruptRecord(
            f"bytes {excerpt(assignment)} are no assignment of a Kafka Connect worker."
        ) from exc
    return found


def _number(data: bytes, at: int) -> tuple[int, int]:
    (number,) = _I32.unpack_from(data, at)
    return number, at + _I32.size
