"""Each fault of the list under a steady load; HELIOGRAPH_FAULTS_OUT=FILE keeps what was measured."""

import os
from pathlib import Path

import pytest

from lab.faults.bench import Bench
from lab.faults.fault import Fault
from lab.faults.results import RESULTS
from lab.faults.scenarios import FAULTS

pytestmark = [pytest.mark.fault, pytest.mark.timeout(900)]


def _case(fault: Fault) -> object:
    marks = [pytest.mark.cluster] if fault.needs_spark_cluster else []
    return pytest.param(fault, id=fault.name, marks=marks)


@pytest.mark.parametrize("fault", [_case(fault) for fault in FAULTS])
def test_nothing_is_lost_repeated_or_out_of_order(bench: Bench, fault: Fault) -> None:
    reason = fault.why_not(bench.system)
    if reason:
        pytest.skip(reason)
    result = fault.do(bench)
    if RESULTS in os.environ:
        result.append_to(Path(os.environ[RESULTS]))
    assert result.is_clean, f"{result}\n{bench.copier.tail()}"
