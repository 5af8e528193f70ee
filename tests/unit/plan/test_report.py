"""A plan as JSON, as text and as an exit code."""

import io
import json
from dataclasses import replace

from rich.console import Console

from heliograph.cli.plan_tables import bytes_in_words, show_plan
from heliograph.flows.starts import Origin
from heliograph.model import Flow, TopicPartition
from heliograph.plan.judgement import Backlog, Clash, Loop, Place
from heliograph.plan.judgement import Origin as TopicOrigin
from heliograph.plan.report import (
    ConfigsToChange,
    FlowPlan,
    GroupPlan,
    MirrorPlan,
    PartitionPlan,
    SkippedTopic,
    TopicToGrow,
    TopicToMake,
)
from heliograph.policy.acls import Acl, Operation, Permission
from heliograph.policy.topic_configs import ResetConfig, SetConfig

FLOW = Flow("A", "B")


def partition(offsets: int = 10, size: int | None = 1000) -> PartitionPlan:
    backlog = Backlog(offsets, size, is_estimate=False)
    here, there = TopicPartition("t", 0), TopicPartition("A.t", 0)
    return PartitionPlan(here, there, Origin.FRESH, 0, offsets, backlog)


def full() -> MirrorPlan:
    flow = FlowPlan(
        FLOW,
        make=(TopicToMake("B", "A.t", 3, 2, "t", {"retention.ms": "1"}, "too many replicas"),),
        make_internal=(TopicToMake("B", "mm2-runs.A.internal", 1, -1),),
        grow=(TopicToGrow("u", "A.u", 1, 4),),
        skip=tuple(SkippedTopic(f"s{n}", "topics.exclude has s.*") for n in range(9)),
        configs=(ConfigsToChange("A.u", (SetConfig("retention.ms", "5"), ResetConfig("x"))),),
        acls=(Acl("A.t", "User:r", "*", Operation.READ, Permission.ALLOW),),
        partitions=(partition(),),
        groups=(GroupPlan("g", 1, 0, 1), GroupPlan("h", passed_over="groups.exclude has h")),
        problems=("too many replicas",),
        notes=("something could not be read",),
    )
    loop = Loop((Place("A", "t"), Place("B", "t"), Place("A", "t")))
    clash = Clash(Place("B", "t"), (TopicOrigin(FLOW, "t"), TopicOrigin(Flow("C", "B"), "t")))
    return MirrorPlan((flow,), (loop,), (clash,), ("A.topics: ignored",), 100)


def text_of(plan: MirrorPlan) -> str:
    out = io.StringIO()
    show_plan(plan, Console(file=out, width=160))
    return out.getvalue()


def test_json_has_all_of_it() -> None:
    found = json.loads(full().to_json())
    (flow,) = found["flows"]
    assert (flow["flow"], flow["offsets"], flow["bytes"], flow["seconds"]) == ("A->B", 10, 1000, 10)
    assert len(flow["skip"]) == 9
    assert flow["partitions"][0]["origin"] == "fresh"
    assert flow["acls"][0]["operation"] == "READ"
    assert flow["configs"][0]["changes"] == [
        {"name": "retention.ms", "value": "5"},
        {"name": "x", "value": None},
    ]
    assert found["loops"] == [[{"cluster": c, "topic": "t"} for c in "ABA"]]
    assert found["clashes"][0]["origins"][1] == {"flow": "C->B", "topic": "t"}
    assert found["exit_code"] == 1


def test_text_says_what_matters() -> None:
    text = text_of(full())
    for words in (
        "PROBLEM: too many replicas.",
        "retention.ms=1",
        "the brokers' default",
        "1 -> 4",
        "s0, s1, s2, s3, s4, s5 and 3 more",
        "retention.ms=5, the default of x",
        "ALLOW READ on A.t for User:r from *",
        "1 partitions (1 because it was never copied): at most 10 records, 1.0 kB, about 10 s at 100 B/s",
        "groups.exclude has h",
        "LOOP A->B->A: t would be copied round and round.",
        "CLASH A:t and C:t would both go to B:t",
        "note: something could not be read",
    ):
        assert words in text


def test_what_a_topic_is_called_is_never_read_as_a_style() -> None:
    plan = MirrorPlan((FlowPlan(FLOW, skip=(SkippedTopic("[red]t[/red]", "internal"),)),))
    assert "[red]t[/red]" in text_of(plan)


def test_nothing_to_do_is_0_something_1_and_a_flow_that_cannot_be_told_3() -> None:
    idle = FlowPlan(FLOW, partitions=(partition(0, 0),), groups=(GroupPlan("g", 1),))
    assert MirrorPlan((idle,)).exit_code == 0
    assert text_of(MirrorPlan((idle,))).splitlines()[-1] == "Nothing to do."
    assert MirrorPlan((idle, FlowPlan(FLOW, partitions=(partition(1),)))).exit_code == 1
    assert MirrorPlan((idle, FlowPlan(FLOW, failure="A is away."))).exit_code == 3


def test_a_heartbeat_under_way_is_nothing_to_do_and_a_blocked_partition_is() -> None:
    assert not FlowPlan(FLOW, partitions=(replace(partition(3), is_heartbeats=True),)).has_work
    blocked = FlowPlan(FLOW, partitions=(replace(partition(0, 0), blocked=True),))
    assert blocked.has_work
    assert blocked.offsets == 0


def test_bytes_are_unknown_as_a_whole_where_a_part_is() -> None:
    flow = FlowPlan(FLOW, partitions=(partition(), partition(size=None)))
    assert flow.bytes is None
    assert MirrorPlan((flow,)).seconds(flow) is None
    assert "bytes and time unknown" in text_of(MirrorPlan((flow,)))


def test_sizes_are_told_in_units() -> None:
    sizes = [0, 999, 1000, 1_500_000, 2_000_000_000, 3 * 10**12, 4 * 10**15]
    told = ["0 B", "999 B", "1.0 kB", "1.5 MB", "2.0 GB", "3.0 TB", "4000.0 TB"]
    assert list(map(bytes_in_words, sizes)) == told
