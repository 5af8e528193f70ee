from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.unit.copying.pairs import Driver, Pair


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """What a test opens for as long as it runs."""
    with ExitStack() as made:
        yield made


@pytest.fixture
def pair(stack: ExitStack) -> Pair:
    return Pair(stack)


@pytest.fixture
def driver(pair: Pair) -> Driver:
    """A driver whose task has its lease, and no partitions yet."""
    return Driver(pair)
