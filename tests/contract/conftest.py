"""One system of each kind for the whole run; pytest runs all of one kind before the other starts."""

from collections.abc import Generator, Iterator

import pytest

from lab.clusters import LiveCluster
from tests.contract.systems import (
    EVERY_SECOND,
    HELIOGRAPH,
    LAG_MAX,
    MM2,
    ONE_BROKER,
    STARTING,
    Flow,
    System,
    clusters_of_its_own,
    running,
)

BEFORE = "made-before-the-start"


@pytest.fixture(
    scope="session",
    params=[
        pytest.param(MM2, marks=[pytest.mark.contract, pytest.mark.peer]),
        pytest.param(HELIOGRAPH, marks=[pytest.mark.contract, pytest.mark.spark]),
    ],
)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def pair(
    kind: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[LiveCluster, LiveCluster]]:
    with clusters_of_its_own(tmp_path_factory.mktemp(f"{kind}-pair")) as made:
        yield made


@pytest.fixture(scope="session")
def system(
    kind: str, pair: tuple[LiveCluster, LiveCluster], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[System]:
    """A and B mirror each other; all that is done at intervals is done every second."""
    a, b = pair
    properties = {
        "clusters": "A, B",
        "A.bootstrap.servers": a.bootstrap,
        "B.bootstrap.servers": b.bootstrap,
        "A->B.enabled": "true",
        "B->A.enabled": "true",
        "topics.exclude": "mm2.*[.]internal, .*[.]replica, __.*, private[.].*",
        "sync.group.offsets.enabled": "true",
        "offset.lag.max": str(LAG_MAX),
        "A.offset.flush.interval.ms": "1000",
        "B.offset.flush.interval.ms": "1000",
        "A.consumer.isolation.level": "read_committed",
        "B.consumer.isolation.level": "read_committed",
        **EVERY_SECOND,
        **ONE_BROKER,
    }
    a.create_topic(2, name=BEFORE)
    a.produce(BEFORE, [b"%d" % number for number in range(100)])
    with running(kind, tmp_path_factory.mktemp(kind), pair, properties) as started:
        started.until(lambda: b.partition_count(f"A.{BEFORE}"), within=STARTING)
        yield started


@pytest.fixture
def there(system: System) -> Flow:
    return system.flow("A", "B")


@pytest.fixture
def back(system: System) -> Flow:
    return system.flow("B", "A")


@pytest.fixture(params=["there", "back"])
def either(request: pytest.FixtureRequest, system: System) -> Flow:
    return system.flow("A", "B") if request.param == "there" else system.flow("B", "A")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of the system's log beside the failure of a test that used it."""
    report = yield
    if report.failed:
        for name in ("system", "variants"):
            used = getattr(item, "funcargs", {}).get(name)
            if isinstance(used, System):
                report.sections.append((f"log of {name}", used.program.tail()))
    return report
