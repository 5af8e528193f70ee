import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.prometheus import PROMETHEUS, RULES, known_names, load_rules, names_in, need, operands

ALERTS_PAGE = Path(__file__).parents[2] / "docs" / "alerts.md"
CASES = sorted(PROMETHEUS.glob("tests/*.yml"))
ALERTS = load_rules("alert")
RECORDS = load_rules("record")
SCRAPED = {"up", "process_start_time_seconds"}


def promtool(*arguments: str) -> None:
    done = subprocess.run(
        [need("promtool"), *arguments],
        capture_output=True,
        text=True,
        cwd=PROMETHEUS,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def name_of(rule: dict[str, Any]) -> str:
    return str(rule.get("alert") or rule.get("record"))


def test_promtool_takes_the_configuration_and_the_rules() -> None:
    promtool("check", "config", "prometheus.yml")
    promtool("check", "rules", *map(str, RULES))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_rules_do_in_promtool_what_their_cases_say(path: Path) -> None:
    promtool("test", "rules", str(path))


def test_every_alert_has_a_case_in_which_it_fires() -> None:
    fired = {
        name
        for path in CASES
        for case in yaml.safe_load(path.read_text())["tests"]
        for asked in case["promql_expr_test"]
        for sample in asked["exp_samples"]
        for name in re.findall(r'alertname="(\w+)"', sample["labels"])
    }
    assert fired == {rule["alert"] for rule in ALERTS}


@pytest.mark.parametrize("rule", [*ALERTS, *RECORDS], ids=name_of)
def test_a_rule_asks_for_metrics_that_there_are(rule: dict[str, Any]) -> None:
    assert names_in(rule["expr"]) <= known_names() | SCRAPED


@pytest.mark.parametrize("rule", ALERTS, ids=name_of)
def test_an_alert_says_how_bad_it_is_what_it_means_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning"}
    told = rule["annotations"]
    assert set(told) == {"summary", "description", "runbook_url"}
    page, _, anchor = told["runbook_url"].partition("#")
    assert page == "docs/alerts.md"
    sections = re.findall(r"^## (.+)$", ALERTS_PAGE.read_text(), re.MULTILINE)
    assert anchor in [section.lower() for section in sections]


def test_the_page_of_alerts_has_no_section_of_an_alert_that_is_not_there() -> None:
    sections = re.findall(r"^## (Heliograph.+)$", ALERTS_PAGE.read_text(), re.MULTILINE)
    anchors = {rule["annotations"]["runbook_url"].partition("#")[2] for rule in ALERTS}
    assert {section.lower() for section in sections} == anchors


def test_the_parts_of_an_alert_are_what_it_compares() -> None:
    assert operands('max(a{x!="b"}) == 1') == ['max(a{x!="b"}) == bool 1']
    assert operands("a > on () group_left () b and on (s, t) c != 3 unless d") == [
        "a > bool on () group_left () b",
        "c != bool 3",
        "d",
    ]
    assert operands("absent(a)") == ["a"]
    assert operands("max(a and b) > bool 2\n  or c") == ["max(a and b) > bool 2", "c"]
