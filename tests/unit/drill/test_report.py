import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from heliograph.drill.page import render_html, write_report
from heliograph.drill.plots import draw_bars, draw_plot, draw_timeline, short, ticks
from heliograph.drill.report import Bars, Figure, Line, Plot, Report, Step, Table
from heliograph.drill.wipe_samples import rates

REPORT = Report(
    title="A drill of <A> & B",
    story="A was lost.",
    ok=True,
    verdict="Every record is there.",
    began=datetime(2026, 11, 16, 2, 3, 4, tzinfo=UTC),
    seconds=12.3456,
    figures=(Figure("RPO", "0", "records"), Figure("RTO", "4.2 s")),
    steps=(Step("begin", 0, 2.5), Step("end", 2.5, 9.8, "a note")),
    plots=(
        Plot("Records", "each", (Line("A", ((0, 0), (5, 1e5))),), ((3, "A is lost"),)),
        Bars("Groups", "ms", (("billing", 12.5),)),
    ),
    tables=(Table("Counts", ("topic", "lost"), (("logs", 1234), ("more", None))),),
    notes=("One note.",),
    measured={"rto_seconds": 4.2},
    versions={"heliograph": "1"},
)


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (0, [0, 1]),
        (9, [0, 2, 4, 6, 8, 10]),
        (100, [0, 20, 40, 60, 80, 100]),
        (0.4, [0, 0.1, 0.2, 0.3, 0.4]),
    ],
)
def test_an_axis_has_round_numbers_and_reaches_over_the_most(
    most: float, expected: list[float]
) -> None:
    assert ticks(most) == pytest.approx(expected)


def test_numbers_on_an_axis_are_short() -> None:
    assert [short(number) for number in (0, 12.5, 80_000, 1_500_000)] == [
        "0",
        "12.5",
        "80k",
        "1.5M",
    ]


def test_plots_are_well_formed_and_within_their_frame() -> None:
    plot, bars = REPORT.plots
    assert isinstance(plot, Plot)
    assert isinstance(bars, Bars)
    for drawn in (draw_plot(plot), draw_bars(bars), draw_timeline(REPORT.steps)):
        root = ET.fromstring(drawn)
        _, _, width, height = map(float, root.attrib["viewBox"].split())
        for rect in root.iter("rect"):
            assert float(rect.attrib["x"]) + float(rect.attrib["width"]) <= width
            assert float(rect.attrib["y"]) + float(rect.attrib["height"]) <= height


def test_a_page_needs_nothing_from_elsewhere_and_escapes_what_it_shows() -> None:
    page = render_html(REPORT)
    assert "<title>A drill of &lt;A&gt; &amp; B</title>" in page
    assert not re.search(r"https?://|src=|@import|url\(", page)
    assert "prefers-color-scheme: dark" in page
    assert ">1,234<" in page
    assert ">?<" in page


def test_a_report_that_is_not_good_says_so() -> None:
    assert 'class="verdict ok"' in render_html(REPORT)
    assert 'class="verdict"' in render_html(replace(REPORT, ok=False))


def test_the_page_and_the_numbers_are_kept_side_by_side(tmp_path: Path) -> None:
    page, plain = write_report(REPORT, tmp_path / "new", "wipe")
    assert (page.name, plain.name) == ("wipe-20261116-020304.html", "wipe-20261116-020304.json")
    told = json.loads(plain.read_text())
    assert told["measured"] == {"rto_seconds": 4.2}
    assert told["began"] == "2026-11-16T02:03:04+00:00"
    assert told["steps"][1] == {"name": "end", "start": 2.5, "seconds": 9.8, "note": "a note"}


def test_what_a_cluster_gets_a_second_is_the_growth_of_what_it_holds() -> None:
    held = Line("A", ((0, 0), (1, 50), (2, 100), (4, 300), (4, 0), (6, 10)))
    assert rates(held).points == ((0, 0), (2, 50), (4, 100), (4, 0), (6, 5))
