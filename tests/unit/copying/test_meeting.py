"""How the tails of a slice are divided over threads, one per leader."""

import threading
from collections.abc import Iterable
from typing import Any
from uuid import UUID

import pytest

from heliograph.copying import meeting
from heliograph.copying.meeting import Meeting
from heliograph.copying.rounds import Outcome, Waits
from heliograph.kafka.cluster import Described, Topic
from heliograph.model import Endpoint
from lab.clusters import eventually
from tests.unit.copying.lanes import make_share

A, B = Endpoint("A", (("h", 1),)), Endpoint("B", (("h", 2),))


class Target:
    """A cluster whose partitions all have leader 1."""

    def __init__(self, _endpoint: Endpoint) -> None:
        pass

    def describe_each(self, names: Iterable[str]) -> Described:
        topics = {name: Topic(name, UUID(int=1), (1,) * 9, internal=False) for name in names}
        return Described(topics, {})

    def close(self) -> None:
        pass


def test_partitions_wait_with_a_reason_while_no_thread_can_be_started_and_go_on_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[tuple[Any, ...]] = []
    refusals = iter([True, True, False])

    class Thread(threading.Thread):
        """Like a thread of a process that has too many: the first two starts of a meeting fail."""

        def start(self) -> None:
            if self._target == one._meet_patiently:  # type: ignore[attr-defined]
                if next(refusals):
                    raise RuntimeError("can't start new thread")
                started.append(self._args)  # type: ignore[attr-defined]
                return
            super().start()

    monkeypatch.setattr(meeting, "Cluster", Target)
    monkeypatch.setattr(meeting, "_PAUSE", 0.01)
    outcomes: list[Outcome] = []
    one = Meeting(A, B, outcomes.append, committed_only=False)
    monkeypatch.setattr(threading, "Thread", Thread)
    share = make_share(slot=3)

    one.start([share])
    eventually(lambda: bool(started))
    one.close()

    assert started == [([share],)]
    waits = [outcome for outcome in outcomes if isinstance(outcome, Waits)]
    assert [wait.slots for wait in waits] == [(3,), (3,)]
    assert all("no more threads" in wait.reason for wait in waits)
