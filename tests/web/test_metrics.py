from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client import Metric as Family
from prometheus_client.parser import text_string_to_metric_families

from heliograph.config.access import Entry, Role, hash_password, put_entry
from heliograph.config.listeners import parse_listen
from heliograph.flows.schedule import ChoreStatus
from heliograph.flows.upkeep import GroupStatus
from heliograph.model import TopicPartition
from heliograph.observe.audits import Audits
from heliograph.observe.flow_status import (
    FlowStatus,
    KeptGroups,
    PartitionStatus,
    Spread,
    State,
)
from heliograph.observe.metrics import Observer
from heliograph.observe.metrics_catalog import METRICS
from heliograph.web.app import make_app
from heliograph.web.metrics import CONTENT_TYPE, render, take_snapshot
from heliograph.web.server import Server, make_server
from heliograph.wire.mirror_records import Checkpoint
from lab.counting import count_calls
from tests.fakes import InMemoryHerder

HOSTILE = 'a"} 1\n<script>\\'
AGES = Spread(12, 3, 40, 15.5)


class Mirroring(InMemoryHerder):
    """A herder with a flow of so many partitions, 20 to a topic, and a group of a hostile name."""

    def __init__(self, partitions: int) -> None:
        super().__init__()
        self._partitions = [
            PartitionStatus(
                topic=f"topic-{n // 20}",
                partition=n % 20,
                remote_topic=f"A.topic-{n // 20}",
                upstream=1_000_000 + n,
                downstream=900_000,
                end_offset=1_000_000 + n + n % 3,
                lag=n % 3,
                records=123_456,
                bytes=123_456_789,
                stopped=None,
                record_age_ms=AGES,
                replication_latency_ms=AGES,
            )
            for n in range(partitions)
        ]

    def flows(self) -> list[FlowStatus]:
        return [
            FlowStatus(
                flow="A->B",
                state=State.RUNNING,
                reason=None,
                topics=1,
                partitions=len(self._partitions),
                records=1,
                bytes=1,
                lag=1,
                tasks=2,
                latency_ms=(5, 20),
                verdicts={"pass": 4},
                stopped={},
                refused=(),
                waiting=(),
                slices=(),
                remotes=frozenset(),
                chores=(ChoreStatus("checkpoints", 1, 0.2),),
                skipped_groups={HOSTILE: HOSTILE},
                latency_counts=(*range(20),),
            )
        ]

    def partitions(self, flow: str) -> list[PartitionStatus]:
        assert flow == "A->B"
        return self._partitions

    def kept_groups(self) -> list[KeptGroups]:
        place = TopicPartition("A.topic-0", 0)
        group = GroupStatus(HOSTILE, (Checkpoint(HOSTILE, place, 5, 4),), HOSTILE)
        chores = (ChoreStatus("checkpoints", 1, 0.2),)
        return [KeptGroups("c", "A->B", (group,), chores, {HOSTILE: HOSTILE})]


def parse(text: str) -> dict[str, Family]:
    families = list(text_string_to_metric_families(text))
    found = {family.name: family for family in families}
    assert len(found) == len(families)
    return found


@pytest.fixture
def mirroring() -> Iterator[httpx.Client]:
    server = Server(make_app(Mirroring(40)))
    server.start()
    with httpx.Client(base_url=server.url) as opened:
        yield opened
    server.stop()


def test_a_scraper_can_read_it(mirroring: httpx.Client) -> None:
    mirroring.get("/metrics")
    answer = mirroring.get("/metrics")
    families = parse(answer.text)

    assert answer.headers["content-type"] == CONTENT_TYPE
    declared = {metric.name.removesuffix("_total"): metric for metric in METRICS}
    told = {name: family for name, family in families.items() if name in declared}
    assert len(told) >= 50
    for name, family in told.items():
        assert (family.type, family.documentation) == (declared[name].kind, declared[name].help)
        assert len({frozenset(s.labels.items()) | {s.name} for s in family.samples}) == len(
            family.samples
        )
    rates = families["kafka_connect_mirror_mirrorsourceconnector_record_rate"].samples
    assert [sample.value for sample in rates] == [0.0] * 40
    assert rates[0].labels == {
        "source": "A",
        "target": "B",
        "topic": "A.topic-0",
        "partition": "0",
    }


def test_nothing_is_told_that_is_not_declared_but_what_is_the_process_own(
    mirroring: httpx.Client,
) -> None:
    families = set(parse(mirroring.get("/metrics").text))
    declared = {metric.name.removesuffix("_total") for metric in METRICS}
    others = {name for name in families - declared if not name.startswith(("process_", "python_"))}
    assert others == set()
    assert {"process_cpu_seconds", "heliograph_process_cpu_seconds"} <= families


def test_a_name_cannot_forge_a_line(mirroring: httpx.Client) -> None:
    families = parse(mirroring.get("/metrics").text)
    (skipped,) = families["heliograph_group_skipped"].samples
    assert (skipped.labels["group"], skipped.labels["reason"]) == (HOSTILE, HOSTILE)


def test_a_histogram_is_whole(mirroring: httpx.Client) -> None:
    samples = parse(mirroring.get("/metrics").text)[
        "heliograph_replication_latency_seconds"
    ].samples
    buckets = [sample for sample in samples if sample.name.endswith("_bucket")]
    (count,) = [sample for sample in samples if sample.name.endswith("_count")]
    assert [float(sample.labels["le"]) for sample in buckets] == sorted(
        float(sample.labels["le"]) for sample in buckets
    )
    assert buckets[-1].value == count.value == sum(range(20))


def test_a_scraper_may_ask_for_less(mirroring: httpx.Client) -> None:
    families = parse(mirroring.get("/metrics", params={"partitions": 39, "groups": 0}).text)
    counts = families["kafka_connect_mirror_mirrorsourceconnector_record_count"].samples
    assert [(s.labels, s.value) for s in counts] == [
        ({"source": "A", "target": "B", "topic": f"A.topic-{n}"}, 20 * 123_456.0) for n in range(2)
    ]
    folded = families["heliograph_series_folded"].samples
    assert {s.labels["level"]: s.value for s in folded} == {"partition": 40, "topic": 0, "group": 1}
    assert mirroring.get("/metrics", params={"partitions": -1}).status_code == 400


def test_a_worker_without_flows_has_metrics_too(client: httpx.Client) -> None:
    assert "heliograph_build_info" in parse(client.get("/metrics").text)


def test_a_scrape_needs_the_role_view(tmp_path: Path) -> None:
    file = tmp_path / "access"
    put_entry(file, Entry(Role.VIEW, "prometheus", hash_password("a password")))
    app = make_app(InMemoryHerder())
    server = make_server(app, parse_listen("127.0.0.1:0"), {"rest.access.file": str(file)})
    server.start()
    try:
        alone = httpx.get(f"{server.url}/metrics")
        known = httpx.get(f"{server.url}/metrics", auth=("prometheus", "a password"))
    finally:
        server.stop()
    assert (alone.status_code, known.status_code) == (401, 200)


def test_a_scrape_costs_few_calls_for_each_series_and_grows_with_them_alone(
    tmp_path: Path,
) -> None:
    audits = Audits(tmp_path)
    series: dict[int, int] = {}
    calls: dict[int, int] = {}
    for partitions in (200, 2000):
        herder, observer = Mirroring(partitions), Observer()
        observer.page(take_snapshot(herder, audits))
        page = observer.page(take_snapshot(herder, audits))
        series[partitions] = sum(map(len, page.values()))
        calls[partitions] = count_calls(
            lambda herder=herder, observer=observer: render(  # type: ignore[misc]
                observer.page(take_snapshot(herder, audits))
            )
        )
    assert series[2000] > 14 * 2000
    assert calls[2000] < 10.5 * calls[200]
    assert calls[2000] < 6 * series[2000]
