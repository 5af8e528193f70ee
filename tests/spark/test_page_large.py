"""The page and /metrics of a mirror with 2,000 topics, and what they cost. Minutes: ./test -m long."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import httpx
import pytest
from confluent_kafka.admin import NewTopic
from playwright.sync_api import Browser

from heliograph.embedded.ports import pick_port
from lab.clusters import LiveCluster, eventually, start_live_cluster
from lab.load import SteadyLoad
from lab.mirrors import Mirror, mesh_properties
from tests.browser import Viewer, note, open_browser

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

_TOPICS = 2000
_SCRAPES = 10
_SCRAPE_EVERY = 15.0
_TOPICS_ADDRESS = "flows/A-%3EB/topics"


@dataclass
class Scene:
    mirror: Mirror
    url: str
    browser: Browser


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("large")
    with ExitStack() as stack:
        browser = stack.enter_context(open_browser())
        clusters = {}
        for name in ("A", "B"):
            clusters[name] = start_live_cluster(name, folder / name)
            stack.callback(clusters[name].cluster.wipe)
        fill(clusters["A"])
        url = f"http://127.0.0.1:{pick_port()}"
        mirror = Mirror(
            folder / "mirror",
            mesh_properties(
                {name: cluster.bootstrap for name, cluster in clusters.items()},
                {"A->B": "topic-.*"},
                refresh_topics_interval_seconds="600",
                heartbeats_replication_enabled="false",  # else they are one more than have series
            ),
            arguments=["--listen", url.removeprefix("http://")],
        )
        stack.enter_context(mirror)
        stack.enter_context(SteadyLoad(clusters["A"], "topic-1234", 1, rate=500))
        made = Scene(mirror, url, browser)
        eventually(lambda: is_up(made), 400, mirror.tail)
        yield made


def fill(cluster: LiveCluster) -> None:
    names = [f"topic-{number:04d}" for number in range(_TOPICS)]
    for start in range(0, _TOPICS, 500):
        new = [NewTopic(name, 1, 1) for name in names[start : start + 500]]
        for made in cluster.admin.create_topics(new, request_timeout=120).values():
            made.result(timeout=120)
    eventually(lambda: cluster.topics().issuperset(names), 120)  # brokers learn of them later


def is_up(scene: Scene) -> bool:
    try:
        (flow,) = httpx.get(f"{scene.url}/api/overview", timeout=30).json()["flows"]
    except httpx.HTTPError:
        return False
    return bool(flow["state"] == "RUNNING" and flow["topics"] >= _TOPICS and flow["rate"])


def test_two_thousand_topics_are_paged_searched_and_sorted(scene: Scene) -> None:
    viewer = Viewer(scene.browser, scene.url)
    viewer.open(_TOPICS_ADDRESS, "text=A.topic-0003")
    took_ms = viewer.page.evaluate("performance.now()")
    note(f"{_TOPICS} topics: the first are shown after {took_ms:.0f} ms")
    assert viewer.page.locator("#main tbody tr").count() <= 100
    viewer.page.get_by_placeholder("Search").first.fill("1234")
    viewer.page.wait_for_selector("#main >> text=A.topic-1234")
    viewer.page.wait_for_selector("#main >> text=A.topic-0003", state="detached")
    viewer.page.get_by_placeholder("Search").first.fill("")
    viewer.page.click("button >> text=Records")
    viewer.page.wait_for_selector("#main tbody tr:first-child >> text=A.topic-1234")
    viewer.page.click("button >> text=Next")
    viewer.page.wait_for_selector(
        "#main tbody tr:first-child >> text=A.topic-1234", state="detached"
    )
    assert viewer.complaints == []
    viewer.keep("topics-2000")
    assert took_ms < 30_000  # only to notice a page that hangs; docs/page.md says what it takes
    viewer.close()


def test_what_scraping_costs_is_noted(scene: Scene) -> None:
    with httpx.Client(base_url=scene.url, timeout=60) as client:
        text = client.get("/metrics").text  # the first finds nothing to compare with
        own = cpu_seconds(scene.mirror.pid)
        time.sleep(_SCRAPES)  # what it costs when nobody asks
        idle = cpu_seconds(scene.mirror.pid) - own
        own = cpu_seconds(scene.mirror.pid)
        began = time.monotonic()
        for _ in range(_SCRAPES):
            assert client.get("/metrics").status_code == 200
            time.sleep(max(began + _SCRAPES - time.monotonic(), 0) / _SCRAPES)
        passed = time.monotonic() - began
        each = (cpu_seconds(scene.mirror.pid) - own - idle * passed / _SCRAPES) / _SCRAPES
    series = sum(not line.startswith("#") for line in text.splitlines())
    share = each / _SCRAPE_EVERY
    note(
        f"{_TOPICS} partitions: {series} series, {each * 1000:.0f} ms of CPU a scrape, "
        f"{share:.2%} of a core at one scrape in {_SCRAPE_EVERY:.0f} s; idle, the driver takes "
        f"{idle / _SCRAPES:.2%} of a core"
    )
    assert series > 10 * _TOPICS
    assert share < 0.2  # only to notice what grows faster than the partitions do


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of the driver alone, with what it serves, but not Spark's."""
    with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123 - a file of the kernel's
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
