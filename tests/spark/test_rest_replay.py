"""A worker is asked all that a real Connect was once asked."""

import os
import sys
from pathlib import Path

import pytest

from heliograph.embedded.nodes import write_properties
from heliograph.embedded.ports import LOOPBACK, pick_port
from heliograph.embedded.processes import spawn, stop
from lab.clusters import eventually
from tests.golden.connect.record import PATIENCE, is_healthy, open_clusters, worker_properties
from tests.web.replay import Compared, replay

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(420)]

NO_POSITIONS = "checkpoint and heartbeat connectors keep no positions"
FEWER_TASKS = "as few tasks as can carry all, one at first"
DIFFERENCES = {
    "/connectors/msc/tasks": FEWER_TASKS,
    "/connectors/msc/tasks/1/status": FEWER_TASKS,
    "/connectors/cpc/offsets": NO_POSITIONS,
    "/connectors/hbc/offsets": NO_POSITIONS,
}


def test_a_worker_answers_as_connect_does_but_for_known_differences(tmp_path: Path) -> None:
    with open_clusters(tmp_path) as (source, target):
        url = f"http://{LOOPBACK}:{pick_port()}"
        file = tmp_path / "connect-distributed.properties"
        write_properties(file, worker_properties(target, url))
        log = tmp_path / "worker.log"
        command = [sys.executable, "-m", "heliograph", "worker", str(file)]
        worker = spawn(command, {**os.environ, "PYTHONPATH": "src"}, log)
        try:
            eventually(lambda: is_healthy(url), 120, lambda: log.read_text()[-3000:])
            compared = list(replay(url, source.bootstrap, target.bootstrap))
        finally:
            stop([worker], PATIENCE)

    strange = [each for each in compared if each.verdict == "differs" and not _reason(each)]
    assert not strange, "\n".join(map(str, strange))


def _reason(each: Compared) -> str | None:
    return each.reason or DIFFERENCES.get(each.theirs.path)


def test_every_difference_of_a_worker_is_in_the_adr() -> None:
    told = Path("docs/adr/0007-differences.md").read_text()

    assert [reason for reason in DIFFERENCES.values() if reason not in told] == []
