"""What a verify found, as values and as JSON, and the file that it is kept in for pages and metrics."""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

from heliograph.model import Flow, TopicPartition
from heliograph.verify.items import Difference, Kind
from heliograph.verify.streams import Findings


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """One partition pair; `timestamps` says whether they were compared: the target may set its own."""

    source: TopicPartition
    target: TopicPartition
    timestamps: bool
    findings: Findings

    def proved(self) -> str:
        found = self.findings
        return (
            f"proved equal up to upstream offset {found.upstream} (downstream {found.downstream}), "
            f"{found.lag} records not yet copied"
        )


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a verify of one flow; `unmirrored` partitions have records and no copy at all."""

    flow: Flow
    partitions: tuple[PartitionResult, ...]
    unmirrored: tuple[TopicPartition, ...] = ()
    complete: bool = False
    seconds: float = 0.0

    @property
    def ok(self) -> bool | None:
        """True if everything is equal, False if something differs, None if that is unknown."""
        verdicts = {result.findings.equal for result in self.partitions}
        if False in verdicts or self.unmirrored or (self.complete and self.lag):
            return False
        return None if None in verdicts else True

    @property
    def compared(self) -> int:
        return sum(result.findings.compared for result in self.partitions)

    @property
    def lag(self) -> int:
        return sum(result.findings.lag for result in self.partitions)

    @property
    def topics(self) -> dict[str, list[PartitionResult]]:
        found: dict[str, list[PartitionResult]] = {}
        for result in self.partitions:
            found.setdefault(result.source.topic, []).append(result)
        return found

    def lines(self) -> Iterator[str]:
        """Yield a sentence for each thing that is wrong or unknown."""
        for partition in self.unmirrored:
            yield f"{partition}: has records and is not mirrored yet"
        for result in self.partitions:
            found = result.findings
            if found.equal is None:
                yield f"{result.source}: could not tell: {found.reason}"
            elif not found.equal:
                yield from _describe_all(result)
            elif self.complete and found.lag:
                yield f"{result.source}: {result.proved()}"

    def summary(self) -> str:
        """Return the overall result as text."""
        partitions, topics = len(self.partitions), len(self.topics)
        size = f"{self.compared} records in {partitions} partitions of {topics} topics"
        if self.ok:
            lag = f", {self.lag} not yet copied" if self.lag else ""
            return f"{size}: every record verified{lag}"
        if self.ok is None:
            unknown = sum(result.findings.equal is None for result in self.partitions)
            return f"{size}: could not tell for {unknown} partitions"
        wrong = sum(result.findings.equal is False for result in self.partitions)
        parts = [f"{wrong} partitions differ"] if wrong else []
        parts += [f"{len(self.unmirrored)} are not mirrored yet"] if self.unmirrored else []
        parts += [f"{self.lag} records are not yet copied"] if self.complete and self.lag else []
        return f"{size}: NOT equal, {', '.join(parts)}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "flow": str(self.flow),
            "ok": self.ok,
            "records": self.compared,
            "lag": self.lag,
            "seconds": round(self.seconds, 3),
            "summary": self.summary(),
            "unmirrored": [asdict(partition) for partition in self.unmirrored],
            "partitions": [
                {
                    "topic": result.source.topic,
                    "partition": result.source.index,
                    "remote_topic": result.target.topic,
                    "timestamps_compared": result.timestamps,
                    **findings_to_dict(result.findings),
                }
                for result in self.partitions
            ],
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict())


def keep_report(report: Report, folder: Path, ended: datetime) -> Path:
    """Write the JSON with its time, whole or not at all, next to the reports of drills; return where it is."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"verify-{ended:%Y%m%d-%H%M%S}"
    names = (name if number == 1 else f"{name}-{number}" for number in count(1))
    path = next(path for its in names if not (path := folder / f"{its}.json").exists())
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        kept = {"ended": ended.isoformat(timespec="milliseconds"), **report.to_dict()}
        part.write_text(json.dumps(kept) + "\n", encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path


def findings_to_dict(findings: Findings) -> dict[str, Any]:
    plain = asdict(findings)
    plain["differences"] = [{**asdict(d), "kind": d.kind.value} for d in findings.differences]
    return plain


def findings_from_dict(plain: dict[str, Any]) -> Findings:
    known = {field.name: plain[field.name] for field in fields(Findings)}
    known["differences"] = tuple(
        Difference(Kind(d["kind"]), d["upstream"], d["downstream"], tuple(d["fields"]))
        for d in plain["differences"]
    )
    return Findings(**known)


def _describe_all(result: PartitionResult) -> Iterator[str]:
    found = result.findings
    counts = ", ".join(f"{count} {kind}" for kind, count in found.counts.items())
    yield f"{result.source}: {counts}; {result.proved()}"
    for difference in found.differences:
        yield f"  {_describe(result, difference)}"
    if sum(found.counts.values()) > len(found.differences):
        yield "  and more"
    if found.reason:
        yield f"  {found.reason}"


def _describe(result: PartitionResult, difference: Difference) -> str:
    upstream, downstream = difference.upstream, difference.downstream
    there = f"{result.target.topic} {result.target.index}"
    match difference.kind:
        case Kind.MISSING:
            return f"upstream offset {upstream} is missing from {there}"
        case Kind.EXTRA:
            return f"downstream offset {downstream} of {there} has no origin"
        case Kind.REPEATED:
            return f"upstream offset {upstream} is repeated at downstream offset {downstream}"
        case Kind.OUT_OF_ORDER:
            return f"upstream offset {upstream} is out of order at downstream offset {downstream}"
        case Kind.DIFFERENT:
            what = ", ".join(difference.fields)
            return f"upstream offset {upstream} and downstream offset {downstream} differ in {what}"
