"""Seed 002 as one command, and its report in a browser."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lab.clusters import eventually
from lab.processes import command_line

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


class Wipe(NamedTuple):
    """A run of the scenario, and what it left."""

    done: subprocess.CompletedProcess[str]
    page: Path
    told: dict[str, Any]


@pytest.fixture(scope="module")
def wipe(tmp_path_factory: pytest.TempPathFactory) -> Wipe:
    folder = tmp_path_factory.mktemp("wipe")
    (folder / "tmp").mkdir()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "heliograph", "drill", "--scenario", "wipe"),
            *("--seconds", "8", "--report", str(folder / "report")),
        ],
        env={**os.environ, "PYTHONPATH": "src", "TMPDIR": str(folder / "tmp")},
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    page, plain = sorted((folder / "report").iterdir())
    # Spark's JVM ends a moment after the process that started it.
    eventually(lambda: not processes_of(folder), 30, lambda: str(processes_of(folder)))
    assert list((folder / "tmp").glob("heliograph-drill-*")) == []
    return Wipe(done, page, json.loads(plain.read_text()))


def processes_of(folder: Path) -> list[str]:
    pids = [int(place.name) for place in Path("/proc").iterdir() if place.name.isdigit()]
    return [line for line in map(command_line, pids) if str(folder) in line]


def test_every_record_of_the_wiped_cluster_is_on_the_new_one(wipe: Wipe) -> None:
    measured = wipe.told["measured"]
    assert measured["produced"] > 10_000
    assert measured["recovered"] == measured["verified"] == measured["produced"]
    assert (measured["lost"], measured["repeated"]) == (0, 0)
    rows = {row[1]: row for row in wipe.told["tables"][0]["rows"]}
    assert set(rows) == {"ClusterA.ClusterB.TomcatServerLogs", "ClusterA.NginxServerLogs"}
    assert all(row[-1].endswith(", both") for row in rows.values())
    assert "is on ClusterC, once, in order and unchanged" in wipe.done.stdout


def test_every_step_has_its_time(wipe: Wipe) -> None:
    steps = wipe.told["steps"]
    starts = [step["start"] for step in steps]
    assert starts == sorted(starts)
    assert sum(step["seconds"] for step in steps) == pytest.approx(wipe.told["seconds"], abs=2)


@pytest.fixture
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    with playwright.sync_playwright() as running:
        chromium = running.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-background-networking"]
        )
        yield chromium
        chromium.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_opens_in_a_browser_without_an_error(
    wipe: Wipe, browser: Any, scheme: str, tmp_path: Path
) -> None:
    page = browser.new_page(viewport={"width": 1060, "height": 900}, color_scheme=scheme)
    problems: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(wipe.page.as_uri())
    picture = page.screenshot(path=tmp_path / f"{scheme}.png", full_page=True)

    assert problems == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    figures = page.locator(".figure b")
    assert figures.all_inner_texts()[0] == "0"
    assert figures.all_inner_texts()[2] == f"{wipe.told['measured']['produced']:,}"
    for figure in figures.all():
        assert figure.is_visible()
    assert page.locator("svg").count() == 3
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert len(picture) > 20_000
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert dark == {"light": "rgb(247, 247, 245)", "dark": "rgb(20, 23, 27)"}[scheme]
