from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from lab.clusters import LiveCluster, start_live_cluster

# What passes once passes again: a run that explores is asked for by `--hypothesis-profile default`.
settings.register_profile("same", derandomize=True)
settings.load_profile("same")

_kept = pytest.StashKey[list[Path]]()


@pytest.fixture(scope="session")
def source(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveCluster]:
    """One broker for the whole run: use a topic of your own."""
    yield from _cluster("source", request, tmp_path_factory)


@pytest.fixture(scope="session")
def target(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveCluster]:
    """A second broker, of another cluster, for the whole run."""
    yield from _cluster("target", request, tmp_path_factory)


def _cluster(
    name: str, request: pytest.FixtureRequest, folders: pytest.TempPathFactory
) -> Iterator[LiveCluster]:
    live = start_live_cluster(name, folders.mktemp(name))
    try:
        yield live
    finally:
        if request.session.testsfailed:
            live.cluster.stop()
            request.config.stash.setdefault(_kept, []).append(live.cluster.log(1))
        else:
            live.cluster.wipe()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for log in config.stash.get(_kept, []):
        terminalreporter.write_line(f"broker log kept: {log}")
