"""A Spark that a test plays: its jobs do what the test says."""

import threading
from collections.abc import Callable

from heliograph.copying.lease import LeaseLost
from heliograph.copying.task import copy
from heliograph.errors import MirrorError
from heliograph.model import TopicPartition
from heliograph.spark.cores import Cores
from heliograph.wire.lease_messages import Claim

Run = Callable[[Claim], object]


class FakeEngine:
    """An engine without a JVM; it keeps the claims that it was given."""

    def __init__(self, run: Run = lambda _: None) -> None:
        self.run = run
        self.is_up = True
        self.claims: list[Claim] = []
        self.cancelled: list[str] = []
        self.seats: dict[str, int] = {}

    def wait(self, _within: float) -> bool:
        if not self.is_up:
            threading.Event().wait(0.01)
        return self.is_up

    def seat(self, key: str, tasks: int) -> None:
        self.seats[key] = tasks

    def cores(self) -> Cores | None:
        return None

    def shortage(self) -> str | None:
        return None

    def run_slice(self, claim: Claim, group: str) -> None:
        assert group == f"{claim.flow} {claim.slice_index}"
        self.claims.append(claim)
        self.run(claim)

    def cancel(self, group: str) -> None:
        self.cancelled.append(group)


def copy_as_task(claim: Claim, failures: list[str]) -> None:
    """Do what Spark has a worker do; note why it fails, unless it only lost its lease."""
    try:
        copy(claim, claim.attempt)
    except LeaseLost:
        raise
    except MirrorError as exc:
        failures.append(str(exc))
        raise
    except Exception as exc:
        failures.append(repr(exc))
        raise


class KeptRuns(dict[TopicPartition, dict[int, int]]):
    """The downstream offset of each upstream one, by source partition, as a job reported them."""

    def note(self, source: TopicPartition, news: list[tuple[int, int, int]]) -> None:
        kept = self.setdefault(source, {})
        for upstream, downstream, count in news:
            kept.update((upstream + n, downstream + n) for n in range(count))
