import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from heliograph.cli import verify as command
from heliograph.model import Flow, TopicPartition
from heliograph.observe.audits import Audits, VerifyStatus
from heliograph.verify.report import PartitionResult, Report, keep_report
from heliograph.verify.streams import Findings

ENDED = datetime(2026, 11, 16, 2, 3, 4, 678_000, tzinfo=UTC)


def report(equal: bool | None, source: str = "A") -> Report:
    places = TopicPartition("orders", 0), TopicPartition("A.orders", 0)
    found = Findings(equal, compared=12, upstream=12, downstream=12)
    return Report(Flow(source, "B"), (PartitionResult(*places, True, found),), seconds=1.5)


@pytest.mark.parametrize("equal", [True, False, None])
def test_a_kept_report_is_what_the_metrics_read(tmp_path: Path, equal: bool | None) -> None:
    folder = tmp_path / "drill-reports"
    path = keep_report(report(equal), folder, ENDED)

    assert path == folder / "verify-20261116-020304.json"
    assert Audits(folder).last() == [VerifyStatus("A->B", ENDED.timestamp(), equal, 12)]
    kept = json.loads(path.read_text())
    assert kept.pop("ended") == "2026-11-16T02:03:04.678+00:00"
    assert kept == json.loads(report(equal).to_json())


def test_reports_of_one_second_are_all_kept_and_nothing_else_is_left(tmp_path: Path) -> None:
    for source in ("A", "C", "D"):
        keep_report(report(True, source), tmp_path, ENDED)
    keep_report(report(False), tmp_path, ENDED + timedelta(seconds=1))

    assert {path.suffix for path in tmp_path.iterdir()} == {".json"}
    assert {(its.flow, its.ok) for its in Audits(tmp_path).last()} == {
        ("A->B", False),
        ("C->B", True),
        ("D->B", True),
    }


def test_a_report_that_cannot_be_kept_is_told_and_the_verdict_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    command._keep(report(True), tmp_path / "file", silent=False)
    told = capsys.readouterr()
    assert told.out == ""
    assert "the report cannot be kept there (File exists)" in told.err

    command._keep(report(True), tmp_path, silent=False)
    assert "The report, as JSON: " in capsys.readouterr().out
