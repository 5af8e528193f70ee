from collections.abc import Iterator
from contextlib import closing

import pytest

from heliograph.config.flow import FlowConfig
from heliograph.control.flow_status import Spread, status_at_rest
from heliograph.control.job_status import spread_of, with_job, with_tally
from heliograph.driving.job import FlowJob
from heliograph.driving.lease_server import LeaseServer
from heliograph.driving.partitions import Partition
from heliograph.model import Endpoint, Flow, Position, TopicPartition
from heliograph.policy.latency import Window, taken
from heliograph.wire.lease_messages import JobOptions, Limits


def test_a_window_that_ran_dry_still_tells_the_last_value() -> None:
    window = Window()
    assert spread_of(window, 0) is None
    window.add(0, taken(4, 3))
    window.add(1, taken(8))
    assert spread_of(window, 2) == Spread(8, 4, 8, 5)
    assert spread_of(window, 100) == Spread(8)


def partition(topic: str, index: int = 0, topic_id: str = "1") -> Partition:
    place = TopicPartition(topic, index)
    return Partition(place, topic_id, place, "r", 1 << 20, Position(0, 0))


@pytest.fixture
def job() -> Iterator[FlowJob]:
    nowhere = Endpoint("B", (("localhost", 1),))
    limits = Limits(45, 4 << 20, 2 << 20, 5, 256 << 10, read_committed=True)
    options = JobOptions(Flow("A", "B"), "A->B", nowhere, nowhere, "id", limits, slices=1)
    with closing(LeaseServer()) as leases:
        yield FlowJob(options, leases, lambda *_: None, lambda *_: None)


def test_what_is_told_by_topic_is_of_the_topics_there_are_and_the_flow_counts_all(
    job: FlowJob, config: FlowConfig
) -> None:
    job.assign([partition("kept"), partition("kept", 1), partition("gone")])
    for topic in ("kept", "gone"):
        job.tally.add(topic, 10, 100)
    job.assign([partition("kept", topic_id="2"), partition("new")])

    status = with_job(with_tally(status_at_rest(config), job.tally), job)

    assert (status.records, status.bytes, status.topics) == (20, 200, 2)
    assert status.copied == {"kept": (10, 100), "new": (0, 0)}
