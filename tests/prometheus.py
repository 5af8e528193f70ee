"""A real Prometheus with our rules, and the queries of our dashboards and rules."""

import json
import math
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.error import HTTPError, URLError

import pytest
import yaml

from heliograph.embedded.ports import LOOPBACK, pick_port
from heliograph.observe.metrics_catalog import METRICS, Kind
from lab.clusters import eventually

DEPLOY = Path(__file__).parents[1] / "deploy"
PROMETHEUS = DEPLOY / "prometheus"
RULES = sorted(PROMETHEUS.glob("rules/*.yml"))
DASHBOARDS = sorted(DEPLOY.glob("grafana/dashboards/*.json"))

_OPERATORS = re.compile(r'"[^"]*"|\{[^}]*\}|(?:==|!=|>=|<=|>|<)(?! *bool)')
_SET = re.compile(r"(?:and|or|unless)(?: *(?:on|ignoring) *\([^)]*\))?(?=[\s(])")
_ABSENT = re.compile(r"\babsent\(([^()]*)\)")


def need(tool: str) -> str:
    """Return where a tool of Debian's package prometheus is; without it tests are skipped, but not in CI."""
    found = shutil.which(tool)
    if found is None:
        told = f"{tool} is not on this machine (Debian: apt-get install prometheus)"
        raise (pytest.fail if os.environ.get("CI") else pytest.skip).Exception(told)
    return found


@dataclass(frozen=True, slots=True)
class Asked:
    """A query of a panel: `place` says where it stands."""

    place: str
    expr: str
    instant: bool


def load_dashboard(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def panel_queries(path: Path) -> Iterator[Asked]:
    """Return every query of every panel of a dashboard."""
    for panel in load_dashboard(path)["panels"]:
        for target in panel.get("targets", []):
            place = f"{path.stem} / {panel['title']} / {target['refId']}"
            yield Asked(place, target["expr"], target["instant"])


def variables_of(path: Path) -> dict[str, bool]:
    """Return a dashboard's variables, and whether they may be `All`."""
    return {v["name"]: v["includeAll"] for v in load_dashboard(path)["templating"]["list"]}


def fill_in(expr: str, values: Mapping[str, str]) -> str:
    """Return a query with Grafana's variables replaced; one that is not given is an error."""
    return re.sub(r"\$(\w+)", lambda found: values[found[1]], expr)


def load_rules(kind: str) -> list[dict[str, Any]]:
    """Return all rules that have `alert`, or `record`."""
    return [
        rule
        for path in RULES
        for group in yaml.safe_load(path.read_text())["groups"]
        for rule in group["rules"]
        if kind in rule
    ]


def operands(expr: str) -> list[str]:
    """Return the parts of an alert's expression, each of which must have data, whether or not it fires.

    It is cut at `and`, `or` and `unless` outside of parentheses, since an empty side hides there. In each part
    comparisons become `bool` ones, which answer 0 or 1 where the others leave series out: then only what has no
    data is empty. `absent(x)` becomes x.
    """
    return [
        _OPERATORS.sub(lambda found: _with_bool(found[0]), _ABSENT.sub(r"\1", part))
        for part in _cut(" ".join(expr.split()))
    ]


def _with_bool(found: str) -> str:
    return found if found[0] in '"{' else f"{found} bool"


def _cut(expr: str) -> list[str]:
    parts, begin, depth, place = [], 0, 0, 0
    while place < len(expr):
        letter = expr[place]
        depth += (letter in "({[") - (letter in ")}]")
        found = _SET.match(expr, place) if depth == 0 and expr[place - 1 : place] == " " else None
        if found:
            parts.append(expr[begin:place].strip())
            begin = place = found.end()
        else:
            place += 1
    return [*parts, expr[begin:].strip()]


def names_in(expr: str) -> set[str]:
    """Return the metrics of an expression: its names that are neither functions, labels nor words of PromQL."""
    bare = re.sub(r'"[^"]*"', "", expr)
    bare = re.sub(r"\b(?:by|without|on|ignoring|group_left|group_right) *\([^)]*\)", "", bare)
    bare = re.sub(r"\{[^}]*\}|\[[^]]*\]", "", bare)
    found = re.findall(r"[A-Za-z_:][\w:]*(?! *\()\b(?! *\()", bare)
    return set(found) - {"and", "or", "unless", "bool", "by", "on"}


def known_names() -> set[str]:
    """Return the metrics that heliograph has and those that our rules record."""
    names = {str(rule["record"]) for rule in load_rules("record")}
    for metric in METRICS:
        histogram = metric.kind is Kind.HISTOGRAM
        names |= {f"{metric.name}_bucket", f"{metric.name}_count"} if histogram else {metric.name}
    return names


class Prometheus:
    """Debian's Prometheus in a folder of its own, which scrapes and evaluates every `seconds`."""

    def __init__(self, folder: Path, target: str, seconds: int = 2) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._port = pick_port()
        self._log = folder / "prometheus.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"http://{LOOPBACK}:{self._port}"
        self._write(target, seconds)

    def _write(self, target: str, seconds: int) -> None:
        """Write our own configuration, with other targets and intervals."""
        config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
        every = f"{seconds}s"
        config["global"] = {
            "scrape_interval": every,
            "scrape_timeout": every,
            "evaluation_interval": every,
        }
        (job,) = [job for job in config["scrape_configs"] if job["job_name"] == "heliograph"]
        config["scrape_configs"] = [{**job, "static_configs": [{"targets": [target]}]}]
        config["rule_files"] = [str(PROMETHEUS / pattern) for pattern in config["rule_files"]]
        (self._folder / "prometheus.yml").write_text(yaml.safe_dump(config))

    def __enter__(self) -> Self:
        command = [
            need("prometheus"),
            f"--config.file={self._folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address={LOOPBACK}:{self._port}",
        ]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        eventually(self._is_ready, 60, self._log.read_text)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None, "it was started"
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5):
                return True
        except URLError:
            return False

    def ask(self, path: str, **parameters: str | float) -> Any:
        """Return `data` of an answer; a query that is an error raises what Prometheus says of it."""
        asked = urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{asked}", timeout=30) as answer:
                return json.load(answer)["data"]
        except HTTPError as exc:
            raise AssertionError(f"{parameters}: {exc.read().decode()}") from exc

    def values(self, expr: str) -> list[float]:
        """Return the values of a query now."""
        data = self.ask("query", query=expr)
        pairs = (
            [data["value"]]
            if data["resultType"] == "scalar"
            else [s["value"] for s in data["result"]]
        )
        return [float(value) for _, value in pairs]

    def value(self, expr: str) -> float:
        """Return the one value of a query now; not a number where there is none."""
        found = self.values(expr)
        return found[0] if len(found) == 1 else math.nan

    def values_over_time(self, expr: str, seconds: float = 20) -> list[float]:
        """Return the values of a query within the last seconds."""
        now = time.time()
        data = self.ask("query_range", query=expr, start=now - seconds, end=now, step=5)
        return [float(value) for found in data["result"] for _, value in found["values"]]
