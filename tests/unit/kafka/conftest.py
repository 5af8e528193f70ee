"""Clusters of two brokers to ask the same: in this process in every run, and real ones with `-m long`."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from lab.clusters import LiveCluster, start_live_cluster
from lab.inprocess.cluster import InProcessCluster
from tests.unit.kafka.asking import Asker
from tests.unit.kafka.either import Either, InProcess, Real


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """What a test opens for as long as it runs."""
    with ExitStack() as made:
        yield made


@pytest.fixture
def cluster(stack: ExitStack) -> InProcessCluster:
    """Two brokers in this process."""
    made = InProcessCluster("A", nodes=2)
    stack.callback(made.stop)
    return made


@pytest.fixture(scope="session")
def two_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """A real cluster of two brokers, for the whole run."""
    live = start_live_cluster("either", tmp_path_factory.mktemp("either"), brokers=2)
    try:
        yield live
    finally:
        live.cluster.wipe()


@pytest.fixture(
    params=["in-process", pytest.param("real", marks=[pytest.mark.broker, pytest.mark.long])]
)
def either(request: pytest.FixtureRequest) -> Either:
    """A cluster of either kind: what holds for one holds for the other."""
    if request.param == "real":
        return Real(request.getfixturevalue("two_brokers"))
    return InProcess(request.getfixturevalue("cluster"))


@pytest.fixture
def asker(either: Either, stack: ExitStack) -> Asker:
    return Asker(either.endpoint, stack)
