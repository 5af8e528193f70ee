"""/metrics in Prometheus' text format, from a snapshot that is taken at each request.

The lines are written here: prometheus_client takes 6 us for each, which for 2,000 partitions is more than
the 1 % of a core that a scrape every 15 s may cost. It reports the process itself, under the usual names.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, cast

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.responses import PlainTextResponse
from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

from heliograph.observe.audits import Audits
from heliograph.observe.metrics import LIMITS, Labels, Limits, Observer, Page, Snapshot
from heliograph.observe.metrics_catalog import BUILD, SNAPSHOT_SECONDS, Kind, Metric
from heliograph.observe.reports import Shelf
from heliograph.observe.usage import read_usage
from heliograph.web import shapes
from heliograph.web.mirror import Flows, TheFlows

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_MOST = 100_000
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

router = APIRouter(tags=["metrics"])


class Desk:
    """What is remembered from one scrape to the next."""

    def __init__(self, reports: Path) -> None:
        self.observer = Observer()
        self.audits = Audits(reports)
        self.process = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.process)


def mount(app: FastAPI, reports: Path) -> Desk:
    """Serve /metrics; `reports` is the folder of the reports of drills and verifies."""
    desk = app.state.metrics = Desk(reports)
    app.state.reports = Shelf(reports)
    app.include_router(router)
    return desk


async def _desk(request: Request) -> Desk:
    return cast(Desk, request.app.state.metrics)


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def get_metrics(
    known: TheFlows,
    desk: Annotated[Desk, Depends(_desk)],
    partitions: Annotated[int, Query(ge=0, le=_MOST)] = LIMITS.partitions,
    groups: Annotated[int, Query(ge=0, le=_MOST)] = LIMITS.groups,
) -> PlainTextResponse:
    """Return all metrics; with more than so many partitions or groups, those of topics and flows."""
    began = time.perf_counter()
    limits = Limits(partitions, max(partitions, LIMITS.topics), groups)
    page = desk.observer.page(take_snapshot(known, desk.audits), limits)
    page[BUILD][(shapes.version(),)] = 1
    page[SNAPSHOT_SECONDS][()] = time.perf_counter() - began
    text = render(page).encode() + generate_latest(desk.process)
    return PlainTextResponse(text, media_type=CONTENT_TYPE)


def take_snapshot(known: Flows, audits: Audits) -> Snapshot:
    """Take a snapshot of all flows of this process, of its processes and of the reports."""
    flows = known.flows()
    names = dict.fromkeys(status.flow for status in flows)
    return Snapshot(
        now=time.monotonic(),
        time_ms=time.time() * 1000,
        flows=flows,
        partitions={flow: known.partitions(flow) for flow in names},
        groups=known.kept_groups(),
        audits=audits.last(),
        usage=read_usage(),
    )


def render(page: Page) -> str:
    """Return a page as text; a metric without values is left out."""
    blocks: dict[Labels, dict[Labels, str]] = {}
    lines: list[str] = []
    for metric, cells in page.items():
        if cells:
            lines.append(
                f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.kind}\n"
            )
            if metric.kind is Kind.HISTOGRAM:
                lines += _buckets(metric, cells)
            else:
                lines += _lines(metric, cells, blocks.setdefault(metric.labels, {}))
    return "".join(lines)


def _lines(metric: Metric, cells: dict[Labels, float], blocks: dict[Labels, str]) -> list[str]:
    """Return a line for each value; `blocks` are the labels as text, which many metrics share."""
    name, labels = metric.name, metric.labels
    for values in cells.keys() - blocks.keys():
        blocks[values] = _block(labels, values)
    return [f"{name}{blocks[values]}{value!r}\n" for values, value in cells.items()]


def _buckets(metric: Metric, cells: dict[Labels, float]) -> Iterator[str]:
    name, labels = metric.name, metric.labels
    for values, value in cells.items():
        yield f"{name}_bucket{_block(labels, values)}{value!r}\n"
        if values[-1] == "+Inf":
            yield f"{name}_count{_block(labels[:-1], values[:-1])}{value!r}\n"


def _block(labels: Labels, values: Labels) -> str:
    """Return labels with a space behind; an empty value is the same as no label, and left out."""
    pairs = [
        f'{label}="{value.translate(_ESCAPES)}"'
        for label, value in zip(labels, values, strict=True)
        if value
    ]
    return f"{{{','.join(pairs)}}} " if pairs else " "
