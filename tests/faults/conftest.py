import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from lab.clusters import LiveCluster, start_live_cluster
from lab.faults.bench import Bench, open_bench
from lab.faults.results import RESULTS

_failed = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[_failed] = True
        results = os.environ.get(RESULTS)
        if results:
            with Path(f"{results}.failures").open("a") as out:
                out.write(f"{item.nodeid}\n{report.longreprtext}\n{report.capstdout}\n\n")
    return report


@pytest.fixture(scope="session")
def three_brokers_each(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with open_bench(tmp_path_factory.mktemp("bench")) as bench:
        yield bench


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """One cluster of three brokers, each of which may be killed or put out of reach."""
    live = start_live_cluster(
        "three",
        tmp_path_factory.mktemp("three"),
        brokers=3,
        config={"min.insync.replicas": "1", "offsets.topic.replication.factor": "3"},
        heap="320m",
        proxied=True,
    )
    yield live
    live.cluster.wipe()


@pytest.fixture
def bench(three_brokers_each: Bench, request: pytest.FixtureRequest) -> Iterator[Bench]:
    """The clusters and the mirror that all faults share; after a case that failed all is made good again."""
    yield three_brokers_each
    if request.node.stash.get(_failed, False):
        three_brokers_each.mend()
