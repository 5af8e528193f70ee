from collections.abc import Iterator
from contextlib import closing

import pytest

from heliograph.spark.engine import Engine
from lab.clusters import eventually

pytestmark = pytest.mark.spark


@pytest.fixture
def engine() -> Iterator[Engine]:
    with closing(Engine(2, {})) as engine:
        engine.start()
        assert engine.wait(60)
        yield engine


def test_a_spark_that_was_ended_by_its_cluster_is_started_again(engine: Engine) -> None:
    first = engine.context()
    cores = engine.cores()
    assert cores is not None
    assert cores.all == 2
    first._jsc.sc().stop()  # as when a master gives an application up
    eventually(lambda: engine.wait(1), within=60)
    assert engine.context() is not first
    assert engine.context().parallelize(range(3), 1).count() == 3
    assert engine.alive()
