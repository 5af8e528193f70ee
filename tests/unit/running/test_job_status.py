import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from heliograph.config.flow import FlowConfig
from heliograph.driving.job import FlowJob, JobOptions
from heliograph.driving.lease_server import LeaseServer
from heliograph.driving.ownership import Ownership
from heliograph.driving.partitions import Partition, Stop
from heliograph.driving.rights import Exclusive
from heliograph.kafka.producers import OpenTransaction
from heliograph.model import Endpoint, Flow, Position, StopKind, TopicPartition
from heliograph.observe.flow_status import Spread, status_at_rest
from heliograph.policy.latency import Window, taken
from heliograph.running.job_status import partition_statuses, spread_of, with_job, with_tally
from heliograph.wire.lease_messages import Limits, SlotRead


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
    limits = Limits(4 << 20, 2 << 20, 5, 256 << 10, read_committed=True)
    options = JobOptions(Flow("A", "B"), "A->B", nowhere, nowhere, limits, slices=2)
    with closing(LeaseServer()) as leases:
        yield FlowJob(
            options,
            leases,
            Exclusive(Ownership("id")),
            on_fatal=lambda *_: None,
            on_runs=lambda *_: None,
        )


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


def test_a_flow_tells_of_the_tasks_that_hold_partitions_and_of_what_went_between_them(
    job: FlowJob, config: FlowConfig
) -> None:
    job.assign([partition("one"), partition("two")])
    job.tally.handovers += 3

    status = with_job(with_tally(status_at_rest(config), job.tally), job)

    assert (status.tasks, status.handovers, len(status.slices)) == (0, 3, 1)
    assert status.waiting == ()


def test_a_partition_that_has_stopped_is_told_with_its_kind(job: FlowJob) -> None:
    stopped = partition("one")
    stopped.stop = Stop(StopKind.TOO_LARGE, 0, "a record is too large", 0.0)
    job.assign([stopped, partition("two")])

    told = {each.topic: (each.stopped, each.stop_kind) for each in partition_statuses(job)}

    assert told == {"one": ("a record is too large", "too-large"), "two": (None, None)}


def test_a_transaction_that_holds_a_partition_back_is_waited_for_by_name(
    job: FlowJob, config: FlowConfig
) -> None:
    held, ordinary = partition("held"), partition("ordinary")
    job.assign([held, ordinary])
    for each in (held, ordinary):
        each.note_read(SlotRead(0, 20, 50, 20, 1, None), time.monotonic() - 90)
    nothing = with_job(status_at_rest(config), job)
    assert (nothing.waiting, nothing.open_transaction_seconds) == ((), 0.0)

    job.note_transaction(
        held.source, 20, OpenTransaction(20, producer_id=7, transactional_id="billing")
    )

    status = with_job(status_at_rest(config), job)
    (sentence,) = status.waiting
    assert sentence.startswith("held-0: a transaction from offset 20 on has been open")
    assert "producer_id=7 transactional_id=billing" in sentence
    assert "30 offsets wait behind it" in sentence
    assert status.open_transactions == (sentence,)
    assert status.open_transaction_seconds >= 90
    shown = {each.topic: each.open_transaction for each in partition_statuses(job)}
    assert shown["ordinary"] is None
    open_one = shown["held"]
    assert open_one is not None
    assert open_one.seconds >= 90
    assert (open_one.offset, open_one.producer_id, open_one.transactional_id) == (20, 7, "billing")
