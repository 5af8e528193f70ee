from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.guarded import GuardedCluster, start_guarded_cluster


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedCluster]:
    """One broker that obeys its ACLs, for the whole run."""
    live = start_guarded_cluster(tmp_path_factory.mktemp("guarded"))
    try:
        yield live
    finally:
        live.cluster.wipe()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """What a test opens for as long as it runs."""
    with ExitStack() as made:
        yield made
