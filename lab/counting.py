"""Costs that are counted instead of timed: requests of our own client to a test cluster, and function calls."""

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from heliograph.kafka.cluster import Cluster
from heliograph.model import Endpoint
from lab.clusters import LiveCluster


def endpoint(live: LiveCluster) -> Endpoint:
    servers = [address.rsplit(":", 1) for address in live.bootstrap.split(",")]
    return Endpoint(live.name, tuple((host, int(port)) for host, port in servers))


class CountingCluster(Cluster):
    """Counts requests by API; `newest` limits it to what an older broker would know."""

    def __init__(self, live: LiveCluster, newest: Mapping[str, int] | None = None) -> None:
        super().__init__(endpoint(live))
        self.calls: Counter[str] = Counter()
        self._newest = newest or {}

    def call(self, request: Any, node: int | None = None, newest: int | None = None) -> Any:
        if node is None:
            return self._call_anyone(request, newest)
        self._count(request)
        return super().call(request, node, self._newest.get(_api(request), newest))

    def _call_anyone(self, request: Any, newest: int | None) -> Any:
        self._count(request)
        return super()._call_anyone(request, self._newest.get(_api(request), newest))

    def _count(self, request: Any) -> None:
        self.calls[_api(request)] += 1


def _api(request: Any) -> str:
    return str(request.name).removesuffix("Request")


def count_calls(work: Callable[[], object]) -> int:
    """Return how many functions were called, those in C too: a cost that is the same on every machine."""
    calls = 0

    def note(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls
