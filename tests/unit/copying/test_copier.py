"""When the loop of a slice wakes by itself, without a broker or a driver."""

import threading
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import cast

import pytest

from heliograph.copying import copier
from heliograph.copying.copier import Copier
from heliograph.copying.lease import Lease
from heliograph.copying.sections import ChunkSection
from heliograph.wire.lease_messages import Ledger, Take, Welcome
from tests.unit.copying.lanes import Batches, make_share
from tests.unit.copying.targets import WELCOME

COMMIT = 500.0
LEDGER = Ledger("A->B-0", "offsets", 1, "runs", "MirrorSourceConnector", "A", COMMIT)


class SilentLease:
    """A line to a driver that says nothing."""

    def __init__(self) -> None:
        self.sent: list[object] = []

    def fileno(self) -> int:
        return -1

    def interest(self) -> int:
        return 0

    def send(self, note: object) -> None:
        self.sent.append(note)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the loop wanted to wait, each time."""
    wanted: list[float] = []

    def await_any(_interest: Mapping[int, int], timeout: float) -> set[int]:
        wanted.append(timeout)
        return set()

    monkeypatch.setattr(copier, "await_any", await_any)
    return wanted


def copier_at_rest(welcome: Welcome) -> Copier:
    """Return a loop that has one partition, and nothing to do for a long time."""
    made = Copier(cast("Lease", SilentLease()), welcome)
    made._obey([Take((make_share(),))])
    far = time.monotonic() + 1000
    made._report_at = made._ping_at = made._reader._place_at = far
    return made


def test_sections_that_are_kept_for_the_next_transaction_wake_the_loop(waits: list[float]) -> None:
    source = Batches()
    batch, _ = source.write([b"v"])
    section = ChunkSection(0, 0, len(batch), source.offset, ())
    with closing(copier_at_rest(replace(WELCOME, ledger=LEDGER))) as one:
        one._await()
        assert waits[-1] > 1, "there is nothing to do"

        one._deliver(memoryview(batch), section)
        one._await()

    assert waits[-1] == 0


def test_sections_that_cannot_go_on_yet_do_not_keep_the_loop_busy(waits: list[float]) -> None:
    source = Batches()
    batch, _ = source.write([b"v"])
    section = ChunkSection(0, 0, len(batch), source.offset, ())
    done = threading.Event()

    def answer() -> None:
        done.wait()

    with closing(copier_at_rest(replace(WELCOME, ledger=LEDGER))) as one:
        assert one._commits is not None
        one._deliver(memoryview(batch), section)
        one._commits._errand = one._bell.start(answer, "a coordinator that takes its time")
        one._await()
        done.set()

    assert waits[-1] > 1
