import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from deploy.grafana.make.__main__ import FOLDER, render
from tests.prometheus import (
    DASHBOARDS,
    fill_in,
    known_names,
    load_dashboard,
    names_in,
    panel_queries,
    variables_of,
)

CORE = {"row", "stat", "timeseries", "table", "heatmap", "state-timeline"}
BUILT_IN = {"__rate_interval": "1m"}
SCRAPED = {
    *("ALERTS", "up", "process_start_time_seconds"),
    *("scrape_duration_seconds", "scrape_samples_scraped"),
    *("process_open_fds", "process_max_fds"),
}

dashboards = pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)


def panels(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = load_dashboard(path)["panels"]
    return found


def test_the_dashboards_are_what_the_program_makes() -> None:
    kept = {path.name: path.read_text() for path in FOLDER.iterdir()}
    assert kept == render(), "run: python -m deploy.grafana.make"


def test_dashboards_are_told_apart_and_lead_to_each_other() -> None:
    made = [load_dashboard(path) for path in DASHBOARDS]
    assert [each["uid"] for each in made] == [path.stem for path in DASHBOARDS]
    assert len({each["title"] for each in made}) == len(made) == 4
    for each in made:
        (link,) = each["links"]
        assert set(link["tags"]) <= set(each["tags"])
        for uid in re.findall(r"/d/([\w-]+)", str(each)):
            assert uid in {other["uid"] for other in made}


@dashboards
def test_panels_need_no_plugin_and_say_what_they_show(path: Path) -> None:
    ids = [panel["id"] for panel in panels(path)]
    assert len(set(ids)) == len(ids)
    for panel in panels(path):
        assert panel["type"] in CORE
        if panel["type"] != "row":
            assert panel["description"].endswith(".")
            assert panel["datasource"]["uid"] == "prometheus"
            assert all(target["datasource"]["uid"] == "prometheus" for target in panel["targets"])
            assert panel["fieldConfig"]["defaults"].get("unit") or panel["type"] == "heatmap"


@dashboards
def test_panels_do_not_lie_over_each_other(path: Path) -> None:
    for one, other in combinations([panel["gridPos"] for panel in panels(path)], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below
        assert one["x"] + one["w"] <= 24


@dashboards
def test_every_variable_is_used_and_every_one_that_is_used_is_there(path: Path) -> None:
    content = load_dashboard(path)
    values = {**dict.fromkeys(variables_of(path), "x"), **BUILT_IN}
    asked = [target["expr"] for panel in content["panels"] for target in panel.get("targets", [])]
    asked += [variable["definition"] for variable in content["templating"]["list"]]
    for expr in asked:
        fill_in(expr, values)
    used = {name for expr in asked for name in re.findall(r"\$(\w+)", expr)}
    assert set(variables_of(path)) <= used


@dashboards
def test_panels_ask_for_metrics_that_there_are(path: Path) -> None:
    for asked in panel_queries(path):
        assert names_in(asked.expr) <= known_names() | SCRAPED, asked.place
