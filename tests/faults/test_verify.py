"""After all other cases of the bench: the account of `heliograph verify`."""

import pytest

from lab.faults.bench import Bench

pytestmark = [pytest.mark.fault, pytest.mark.timeout(400)]


def test_verify_finds_every_record_of_every_case(bench: Bench) -> None:
    if not bench.topics:
        pytest.skip("no case ran before")
    bench.verify()
