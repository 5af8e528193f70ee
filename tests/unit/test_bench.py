from bench.cases import CASES, GROUPS, USUAL, expand
from bench.figures import Run, ratio, summarize
from bench.page import render_page
from bench.report import Report
from bench.targets import judge


def _runs(case: str, figure: str, **values: float) -> list[Run]:
    return [
        Run(case, system, round_, {figure: value * round_})
        for system, value in values.items()
        for round_ in (1, 2, 3)
    ]


def _report(runs: list[Run]) -> Report:
    return Report("today", "./heliograph bench <all>", {"cpu": "2 x any"}, {"heap": "1g"}, runs)


def test_a_run_with_a_problem_counts_for_nothing() -> None:
    runs = [
        *_runs("plain", "records_per_second", mm2=100, heliograph=500),
        Run("plain", "heliograph", 4, {"records_per_second": 9e9}, problem="content differs"),
    ]
    medians = summarize(runs)
    assert ratio(medians, "plain", "records_per_second", "heliograph") == 5
    assert _report(runs).problems == ["plain 4 heliograph: content differs"]


def test_a_target_is_met_by_the_ratio_of_medians_and_open_where_nothing_was_measured() -> None:
    runs = [
        *_runs("plain", "records_per_second", mm2=100, heliograph=701),
        *_runs("lz4", "records_per_second", mm2=100, heliograph=899),
        *_runs("steady-500", "p99_ms", mm2=10, heliograph=8),
    ]
    met = {finding.text: finding.met for finding in judge(summarize(runs))}
    assert met["plain: at least 7 x MM2's records/s"] is True
    assert met["lz4: at least 9 x MM2's records/s"] is False
    assert met["500 rec/s: p99 at most 0.8 x MM2's"] is True
    assert met["500 rec/s: p50 at most 0.35 x MM2's"] is None


def test_memory_is_judged_by_the_worst_case() -> None:
    runs = [
        *_runs("plain", "peak_pss_bytes", mm2=100, heliograph=90),
        *_runs("idle-200", "peak_pss_bytes", mm2=100, heliograph=150),
    ]
    finding = next(f for f in judge(summarize(runs)) if "peak memory" in f.text)
    assert finding.met is False
    assert finding.measured == "1.50 x in idle-200; met in 1 of 2 cases"


def test_the_page_has_nothing_from_elsewhere_and_shows_every_case() -> None:
    runs = [
        run
        for case in CASES.values()
        for run in _runs(case.name, case.columns[0].name, mm2=2, heliograph=3)
    ]
    page = render_page(_report(runs))
    assert "://" not in page
    assert "./heliograph bench &lt;all&gt;" in page
    assert all(name in page for name in CASES)


def test_a_group_stands_for_its_cases_and_none_is_measured_unasked() -> None:
    found = expand(["plain", "scale"])
    assert found.keys() == {"plain", *GROUPS["scale"]}
    assert found["plain"] is None
    assert found["partitions-5000"] == ("heliograph",)
    assert expand(["scale", "idle-200"])["idle-200"] is None
    assert not {"partitions-5000", "tasks-8", "executors-2", "installation"} & set(USUAL)
