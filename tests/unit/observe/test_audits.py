import json
import os
from pathlib import Path
from typing import Any

from heliograph.observe.audits import Audits, DrillStatus, VerifyStatus


def keep(folder: Path, name: str, at: float, **plain: Any) -> None:
    path = folder / f"{name}.json"
    path.write_text(json.dumps(plain))
    os.utime(path, (at, at))


def test_the_newest_report_of_each_kind_and_flow_is_told(tmp_path: Path) -> None:
    old = {"flow": "A->B", "rpo_seconds": 9.0, "rto_seconds": 9.0}
    new = {"flow": "A->B", "rpo_seconds": 0.5, "rto_seconds": 1.5}
    keep(tmp_path, "drill-20261101-100000", 100, ok=True, measured=old)
    keep(tmp_path, "drill-20261102-100000", 200, ok=False, measured=new)
    keep(tmp_path, "verify-20261102-110000", 300, flow="A->B", ok=None, records=12)
    keep(tmp_path, "verify-20261101-110000", 250, flow="B->A", ok=True, records=3)

    assert set(Audits(tmp_path).last()) == {
        DrillStatus("A->B", 200, False, 0.5, 1.5),
        VerifyStatus("A->B", 300, None, 12),
        VerifyStatus("B->A", 250, True, 3),
    }


def test_a_report_that_comes_later_is_seen_and_what_is_none_is_passed_over(tmp_path: Path) -> None:
    audits = Audits(tmp_path)
    assert audits.last() == []
    assert Audits(tmp_path / "nowhere").last() == []
    (tmp_path / "drill-1.json").write_text("{")
    keep(tmp_path, "drill-2", 1, ok=True, measured={"rto_seconds": 1})
    keep(tmp_path, "verify-1", 5, flow="A->B", ok=True, records=3)
    assert audits.last() == [VerifyStatus("A->B", 5, True, 3)]


def test_a_report_tells_its_own_time_wherever_its_file_was_copied_to(tmp_path: Path) -> None:
    began = "1970-01-01T00:01:40+00:00"
    keep(tmp_path, "drill-1", 5000, ok=True, flow="A->B", began=began)
    keep(tmp_path, "verify-1", 5000, flow="A->B", ok=True, records=3, ended="yesterday")
    drill, verify = Audits(tmp_path).last()
    assert (drill.at, verify.at) == (100, 5000)


def test_a_report_of_something_else_breaks_nothing(tmp_path: Path) -> None:
    keep(tmp_path, "verify-1", 1, flow="A->B", ok="yes", records=3)
    keep(tmp_path, "verify-2", 1, flow="A->B", ok=True, records="many")
    keep(tmp_path, "drill-1", 1, ok=True, measured={"flow": "A->B", "rto_seconds": "long"})
    (tmp_path / "verify-3.json").write_text("[" * 100_000)
    (tmp_path / "verify-4.json").mkdir()
    keep(tmp_path, "verify-5", 1)
    assert Audits(tmp_path).last() == [DrillStatus("A->B", 1, True, None, None)]
