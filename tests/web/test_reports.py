import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from heliograph.drill.page import write_report
from heliograph.drill.report import Cell, Figure, Report, Step
from heliograph.model import Flow, TopicPartition
from heliograph.observe import reports
from heliograph.verify import report as verify_report
from heliograph.verify.streams import Findings
from heliograph.web.app import make_app
from heliograph.web.server import Server
from tests.fakes import InMemoryHerder

BEGAN = datetime(2026, 11, 16, 2, 3, 4, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "drill-reports"


@pytest.fixture
def shown(folder: Path) -> Iterator[httpx.Client]:
    app = make_app(InMemoryHerder())
    app.state.reports = reports.Shelf(folder)
    server = Server(app)
    server.start()
    with httpx.Client(base_url=server.url) as opened:
        yield opened
    server.stop()


def drill(folder: Path, began: datetime = BEGAN, *, ok: bool = True, name: str = "drill") -> None:
    measured: dict[str, Cell] = {"flow": "A->B", "rpo_seconds": 0.5} if name == "drill" else {}
    report = Report(
        title="A drill of <b>A</b>",
        story="A was lost.",
        ok=ok,
        verdict="Every record is there.",
        began=began,
        seconds=12.3,
        figures=(Figure("RPO", "0"),),
        steps=(Step("begin", 0, 2.5),),
        measured=measured,
    )
    write_report(report, folder, name)


def verify(folder: Path, ended: datetime, equal: bool | None) -> None:
    places = TopicPartition("orders", 0), TopicPartition("A.orders", 0)
    found = Findings(equal, compared=12, upstream=12, downstream=12)
    result = verify_report.PartitionResult(*places, True, found)
    verify_report.keep_report(verify_report.Report(Flow("A", "B"), (result,)), folder, ended)


def refusal(answer: httpx.Response) -> tuple[int, Any]:
    assert set(answer.json()) == {"error_code", "message"}
    return answer.status_code, answer.json()["error_code"]


def test_what_the_commands_keep_is_listed_newest_first(shown: httpx.Client, folder: Path) -> None:
    assert shown.get("/api/reports").json() == []
    drill(folder)
    verify(folder, BEGAN.replace(hour=9), None)
    drill(folder, BEGAN.replace(hour=5), ok=False, name="wipe")
    listed = shown.get("/api/reports").json()
    at_ms = int(BEGAN.timestamp() * 1000)
    hour = 3_600_000

    assert [entry["name"] for entry in listed] == [
        "verify-20261116-090304",
        "wipe-20261116-050304",
        "drill-20261116-020304",
    ]
    assert [tuple(entry.values())[1:] for entry in listed] == [
        (
            *("verify", "A->B", at_ms + 7 * hour, None),
            *("12 records in 1 partitions of 1 topics: could not tell for 1 partitions", False),
        ),
        ("drill", None, at_ms + 3 * hour, False, "Every record is there.", True),
        ("drill", "A->B", at_ms, True, "Every record is there.", True),
    ]
    for entry in listed:
        plain = shown.get(f"/api/reports/{entry['name']}")
        assert plain.headers["content-type"] == "application/json"
        assert plain.json()["ok"] == entry["ok"]
        page = shown.get(f"/api/reports/{entry['name']}/page")
        assert page.status_code == (200 if entry["page"] else 404)


def test_a_page_may_run_nothing_and_load_nothing(shown: httpx.Client, folder: Path) -> None:
    drill(folder)
    (folder / "drill-20261116-020304.html").write_text("<script>alert(1)</script>")
    page = shown.get("/api/reports/drill-20261116-020304/page")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"] == (
        "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    )
    assert page.headers["x-content-type-options"] == "nosniff"


def test_only_reports_of_the_folder_are_shown(shown: httpx.Client, folder: Path) -> None:
    drill(folder)
    for secret in (folder.parent / "secret.json", folder / "secret.json", folder / "secret.html"):
        secret.write_text('{"ok": true}')
    for name in (
        "secret",
        "drill-1.json",
        "..",
        "..%5csecret",
        "drill-..%2f..%2fsecret",
        "drill-%00",
        "drill-1%0a",
        "drill-%d9%a1",
        "drill-" + "x" * 5000,
        "%2e%2e%2fsecret",
    ):
        for below in ("", "/page"):
            answer = shown.get(f"/api/reports/{name}{below}")
            assert refusal(answer)[0] in (400, 404), name
            assert "true" not in answer.text


def test_a_link_a_pipe_and_a_folder_are_no_reports(shown: httpx.Client, folder: Path) -> None:
    folder.mkdir()
    secret = folder.parent / "secret"
    secret.write_text('{"ok": true}')
    (folder / "drill-1.json").symlink_to(secret)
    (folder / "drill-1.html").symlink_to(secret)
    os.mkfifo(folder / "drill-2.json")
    (folder / "drill-3.json").mkdir()
    assert shown.get("/api/reports").json() == []
    for name in ("drill-1", "drill-1/page", "drill-2", "drill-3"):
        assert refusal(shown.get(f"/api/reports/{name}")) == (404, 404)


def test_what_is_no_report_is_not_listed_and_odd_characters_break_nothing(
    shown: httpx.Client, folder: Path
) -> None:
    folder.mkdir()
    (folder / "drill-1.json").write_text("{")
    (folder / "drill-2.json").write_text('{"ok": true, "measured": {"rpo_seconds": NaN}}')
    (folder / "drill-3.json").write_text('{"ok": "yes"}')
    (folder / "verify-4.json").write_text('{"flow": "\\ud800", "summary": ["\\udfff"]}')
    (listed,) = shown.get("/api/reports").json()
    assert (listed["name"], listed["flow"], listed["ok"]) == ("verify-4", "?", None)


def test_a_report_that_is_too_large_is_refused(
    shown: httpx.Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "LARGEST", 1 << 20)
    folder.mkdir()
    (folder / "drill-1.json").write_text(json.dumps({"ok": True, "verdict": "x" * (1 << 20)}))
    assert shown.get("/api/reports").json() == []
    assert refusal(shown.get("/api/reports/drill-1")) == (413, 413)


def test_a_report_that_changes_is_read_again_and_200_are_listed(
    shown: httpx.Client, folder: Path
) -> None:
    folder.mkdir()
    for number in range(203):
        began = f"2026-11-16T00:{number // 60:02}:{number % 60:02}+00:00"
        (folder / f"drill-{number:03}.json").write_text(json.dumps({"ok": True, "began": began}))
    names = [entry["name"] for entry in shown.get("/api/reports").json()]
    assert names == [f"drill-{number:03}" for number in reversed(range(3, 203))]
    changed = folder / "drill-202.json"
    changed.write_text('{"ok": false, "began": "2026-11-17T00:00:00+00:00"}')
    os.utime(changed, (1, 1))
    assert shown.get("/api/reports").json()[0]["ok"] is False
