"""What a worker of Kafka Connect was given to run."""

import struct

import pytest

from heliograph.errors import CorruptRecord
from heliograph.wire.connect_protocol import decode_tasks
from heliograph.wire.primitives import encode_string


def given(version: int, *connectors: tuple[str, list[int]], rest: bytes = b"") -> bytes:
    return b"".join(
        [
            struct.pack(">hh", version, 0),
            encode_string("connect-1-6a6c"),
            encode_string("http://127.0.0.1:8083/"),
            struct.pack(">qi", 12, len(connectors)),
            *(
                encode_string(name) + struct.pack(f">i{len(tasks)}i", len(tasks), *tasks)
                for name, tasks in connectors
            ),
            rest,
        ]
    )


def test_the_connector_itself_is_no_task() -> None:
    assignment = given(0, ("MirrorSourceConnector", [-1, 0, 1]), ("MirrorHeartbeatConnector", [-1]))
    assert decode_tasks(assignment) == {
        "MirrorSourceConnector": [0, 1],
        "MirrorHeartbeatConnector": [],
    }


def test_what_later_versions_add_is_read_past() -> None:
    revoked_and_delay = struct.pack(">ii", -1, 0)
    assert decode_tasks(given(2, ("a", [0]), rest=revoked_and_delay)) == {"a": [0]}


def test_no_connectors_are_a_count_of_minus_one_too() -> None:
    assert decode_tasks(given(1)) == {}
    assert decode_tasks(given(1)[:-4] + struct.pack(">i", -1)) == {}
    assert decode_tasks(b"") == {}


@pytest.mark.parametrize("cut", [1, 10, 40, 60])
def test_half_an_assignment_is_told(cut: int) -> None:
    with pytest.raises(CorruptRecord):
        decode_tasks(given(0, ("MirrorSourceConnector", [-1, 0, 1]))[:cut])
