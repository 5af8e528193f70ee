import json
import os
from pathlib import Path
from typing import Any

from heliograph.control.audits import Audits, DrillStatus, VerifyStatus


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
