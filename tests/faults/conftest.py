import os
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from heliograph.embedded.proxy import Proxy
from tests.clusters import LiveCluster, start_live_cluster
from tests.faults.bench import RESULTS, Bench

_failed = pytest.StashKey[bool]()
_THREE = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}


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
                out.write(f"{item.nodeid}\n{report.longreprtext}\n\n")
    return report


@pytest.fixture(scope="session")
def three_brokers_each(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("bench")
    with ExitStack() as at_end:

        def start(name: str) -> LiveCluster:
            live = start_live_cluster(
                name, folder, brokers=3, config=_THREE, heap="320m", proxied=True
            )
            at_end.callback(live.cluster.wipe)
            return live

        source, target = start("source3"), start("target3")
        to_source = at_end.enter_context(Proxy(source.cluster.proxy_routes))
        to_target = at_end.enter_context(Proxy(target.cluster.proxy_routes))
        bench = Bench(source, target, to_source, to_target, folder)
        yield bench
        if bench.mirror.is_alive:
            bench.mirror.kill()


@pytest.fixture
def bench(three_brokers_each: Bench, request: pytest.FixtureRequest) -> Iterator[Bench]:
    """The clusters and the mirror that all faults share; after a case that failed all is made good again."""
    yield three_brokers_each
    if request.node.stash.get(_failed, False):
        three_brokers_each.mend()
