import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from heliograph.spark.cores import (
    Attendance,
    Cores,
    describe_missed,
    describe_shortage,
)
from heliograph.driving.lease_server import Line


@pytest.fixture
def line() -> Iterator[Line]:
    with closing(socket.socket()) as connection:
        yield Line(connection)


def test_slices_that_nobody_works_on_are_missed_after_some_time(line: Line) -> None:
    attendance = Attendance(3)
    attendance.came(0, "reader", line)
    assert attendance.missed(set(), 100.0) == 0
    assert attendance.missed(set(), 130.5) == 2
    line.is_open = False
    assert attendance.missed(set(), 131.0) == 2
    assert attendance.missed(set(), 161.5) == 3


def test_a_slice_that_rests_is_not_missed(line: Line) -> None:
    attendance = Attendance(2)
    attendance.came(0, "writer", line)
    attendance.missed(set(), 0.0)
    assert attendance.missed({1}, 40.0) == 0
    assert attendance.missed(set(), 69.0) == 0
    assert attendance.missed(set(), 99.5) == 1


def test_too_few_cores_are_a_sentence_with_both_numbers() -> None:
    assert describe_shortage(Cores(4, 0), 4) is None
    assert "4 cores for 6 tasks" in str(describe_shortage(Cores(4, 0), 6))
    assert "1 cores free for 2 tasks" in describe_missed(2, Cores(4, 1))
