from collections.abc import Iterator

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
