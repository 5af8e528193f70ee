"""A Spark that a test plays: its jobs do what the test says."""

import threading
from collections.abc import Callable

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
