from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.unit.driving.jobs import Driven


@pytest.fixture
def driven() -> Iterator[Driven]:
    with ExitStack() as stack:
        yield Driven(stack)
