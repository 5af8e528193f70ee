from collections.abc import Iterator

import pytest

from tests.clusters import LiveCluster, start_live_cluster


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """A broker on which an ACL that denies is obeyed: nobody is a super user."""
    config = {"super.users": "User:nobody"}
    live = start_live_cluster("guarded", tmp_path_factory.mktemp("guarded"), config=config)
    try:
        yield live
    finally:
        live.cluster.wipe()
