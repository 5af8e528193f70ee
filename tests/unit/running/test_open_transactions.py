import socket
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from heliograph.config.flow import FlowConfig
from heliograph.config.settings_own import IsolationLevel
from heliograph.driving.job import FlowJob
from heliograph.driving.lease_server import LeaseServer
from heliograph.driving.partitions import Attempt, HeldBack, Partition
from heliograph.flows.upkeep import TopicUpkeep
from heliograph.kafka.producers import OpenTransaction
from heliograph.model import Endpoint, Position, TopicPartition
from heliograph.running.open_transactions import (
    OpenTransactions,
    advise,
    ask_source,
    describe,
    group_by_transaction,
    sentences,
)
from heliograph.running.runner import FlowRunner
from heliograph.wire.lease_messages import SlotRead

UNUSED = cast("Any", None)
SOURCE = Endpoint("A", (("a", 9092), ("b", 9092)))
KNOWN = OpenTransaction(120, 4001, 3, 1_700_000_000_000, "billing-1")
HELD = HeldBack(TopicPartition("orders", 2), 120, 31.4, 500, KNOWN)
OTHER = replace(HELD, source=TopicPartition("orders", 3), behind=7)


def test_what_one_producer_holds_back_is_one_transaction() -> None:
    later = replace(HELD, transaction=replace(KNOWN, epoch=4))
    assert group_by_transaction([HELD, later, OTHER]) == [[HELD, OTHER], [later]]


def test_partitions_of_unknown_producers_are_kept_apart() -> None:
    unknown = [
        replace(HELD, transaction=None),
        replace(OTHER, transaction=OpenTransaction(OTHER.offset)),
    ]
    assert group_by_transaction(unknown) == [[each] for each in unknown]


def test_a_transaction_is_described_by_its_age_its_producer_and_what_waits() -> None:
    assert describe([HELD]) == (
        "a transaction from offset 120 on has been open on the source for at least 31 s (producer_id=4001 "
        "transactional_id=billing-1 last_write=2023-11-14T22:13:20Z); 500 offsets wait behind it"
    )
    assert describe([HELD, OTHER]).endswith("507 offsets wait behind it in 2 partitions")
    assert sentences([HELD, OTHER]) == (f"orders-2: {describe([HELD, OTHER])}",)


@pytest.mark.parametrize(
    ("transaction", "says"),
    [
        (None, "(the source does not say whose it is)"),
        (OpenTransaction(120), "(the source does not say whose it is)"),
        (OpenTransaction(120, 4001, 3), "(producer_id=4001 transactional_id=unknown)"),
        (replace(KNOWN, last_write_ms=2**62), f"last_write={2**62})"),
    ],
)
def test_what_is_not_known_of_a_producer_is_left_out(
    transaction: OpenTransaction | None, says: str
) -> None:
    assert says in describe([replace(HELD, transaction=transaction)])


def test_the_advice_is_a_command_that_can_be_run() -> None:
    command = (
        "If its producer is gone, abort it: kafka-transactions.sh --bootstrap-server a:9092,b:9092 abort "
        "--topic orders --partition 2 --start-offset 118"
    )
    begun_before = replace(KNOWN, start_offset=118)
    assert advise(replace(HELD, transaction=begun_before), SOURCE) == command
    kept = replace(begun_before, timeout=timedelta(seconds=60))
    says = advise(replace(HELD, transaction=kept), SOURCE)
    assert says == f"Its coordinator aborts it 60 s after its beginning. {command}"
    unknown = advise(replace(HELD, transaction=None), SOURCE)
    assert unknown == command.replace("118", "120")


class Source:
    """What the source answers; `asked` are the offsets it was asked about."""

    def __init__(self) -> None:
        self.transactions: dict[TopicPartition, OpenTransaction | None] = {}
        self.asked: list[Mapping[TopicPartition, int]] = []

    def __call__(
        self, endpoint: Endpoint, stable: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, OpenTransaction | None]:
        assert endpoint.cluster == "A"
        self.asked.append(stable)
        return self.transactions


@pytest.fixture
def job(config: FlowConfig) -> Iterator[FlowJob]:
    with closing(LeaseServer()) as leases:
        runner = FlowRunner(config, UNUSED, leases)
        yield runner._work.open_job(UNUSED, TopicUpkeep(config), None)


@pytest.fixture
def source() -> Source:
    return Source()


def read(job: FlowJob, *names: str, stable: int = 100, now: float = 0.0) -> list[Partition]:
    """Have a task read partitions whose last stable offset is there, and that end 20 offsets later."""
    made = []
    for name in names:
        place = TopicPartition(name, 0)
        each = Partition(place, "id", place, "r", 1 << 20, Position(0, 0))
        each.holder = Attempt(0, 1, UNUSED)
        each.note_read(SlotRead(0, stable, stable + 20, stable, 1, None), now)
        made.append(each)
    job.assign(made)
    return made


def test_a_transaction_is_looked_up_once_it_is_old_and_logged_once(
    config: FlowConfig, job: FlowJob, source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    transactions = OpenTransactions(config, source)
    (held,) = read(job, "t")
    source.transactions = {held.source: KNOWN}
    transactions.look(job, 29.0)
    assert not source.asked

    for now in (30.0, 40.0, 90.0, 200.0):
        transactions.look(job, now)

    assert source.asked == [{held.source: 100}], "it is known"
    assert held.open_transaction is KNOWN
    (line,) = caplog.messages
    assert line.startswith("flow=A->B partition=t-0 offset=100 a transaction ")
    assert "kafka-transactions.sh --bootstrap-server localhost:1 abort --topic t" in line


def test_what_the_source_did_not_tell_is_asked_for_again_at_most_every_half_minute(
    config: FlowConfig, job: FlowJob, source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    transactions = OpenTransactions(config, source)
    (held,) = read(job, "t")
    for now in (30.0, 35.0, 59.0, 60.0, 61.0):
        transactions.look(job, now)
    assert len(source.asked) == 2
    assert held.open_transaction == OpenTransaction(100), "its age and lag are shown all the same"

    source.transactions = {held.source: KNOWN}
    transactions.look(job, 90.0)

    assert held.open_transaction is KNOWN
    assert len(caplog.messages) == 1


def test_a_transaction_over_many_partitions_is_logged_once(
    config: FlowConfig, job: FlowJob, source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    transactions = OpenTransactions(config, source)
    first, second = read(job, "one", "two")
    source.transactions = dict.fromkeys((first.source, second.source), KNOWN)
    transactions.look(job, 30.0)
    (line,) = caplog.messages
    assert "40 offsets wait behind it in 2 partitions" in line

    one, two, three = read(job, "one", "two", "three")
    source.transactions = dict.fromkeys((one.source, two.source, three.source), KNOWN)
    transactions.look(job, 60.0)
    assert len(caplog.messages) == 1


def test_the_next_transaction_of_a_partition_is_logged_too(
    config: FlowConfig, job: FlowJob, source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    transactions = OpenTransactions(config, source)
    (held,) = read(job, "t")
    source.transactions = {held.source: KNOWN}
    transactions.look(job, 30.0)
    held.note_read(SlotRead(0, 200, 220, 200, 1, None), 31.0)
    transactions.look(job, 61.0)
    assert [offsets[held.source] for offsets in source.asked] == [100, 200]
    assert len(caplog.messages) == 2


def test_a_transaction_that_has_ended_meanwhile_is_not_reported(
    config: FlowConfig, job: FlowJob, source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    (held,) = read(job, "t")
    source.transactions = {held.source: None}
    OpenTransactions(config, source).look(job, 30.0)
    assert held.open_transaction is None
    assert not caplog.messages


def test_a_partition_that_nobody_reads_is_not_asked_about(
    config: FlowConfig, job: FlowJob, source: Source
) -> None:
    waiting, left = read(job, "one", "two")
    waiting.waits, left.holder = "the source is away", None
    OpenTransactions(config, source).look(job, 30.0)
    assert not source.asked


@pytest.mark.parametrize(
    "changed",
    [
        ("reading", {"isolation_level": IsolationLevel.READ_UNCOMMITTED}),
        ("copying", {"open_transaction_after": timedelta(seconds=-1)}),
    ],
)
def test_a_flow_that_copies_open_transactions_or_wants_no_word_of_them_does_not_ask(
    config: FlowConfig, job: FlowJob, source: Source, changed: tuple[str, dict[str, Any]]
) -> None:
    read(job, "t")
    component, values = changed
    other: Any = {component: getattr(config, component).replaced(**values)}
    OpenTransactions(replace(config, **other), source).look(job, 300.0)
    assert not source.asked


def test_the_age_from_which_on_a_transaction_counts_is_a_setting(
    config: FlowConfig, job: FlowJob, source: Source
) -> None:
    read(job, "t")
    soon = config.copying.replaced(open_transaction_after=timedelta(seconds=5))
    early = replace(config, copying=soon)
    OpenTransactions(early, source).look(job, 5.0)
    assert source.asked


def test_a_source_that_is_away_tells_nothing() -> None:
    assert ask_source(Endpoint("A", (("localhost", 1),)), {HELD.source: 120}) == {}


def test_a_source_that_does_not_answer_is_given_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heliograph.running.open_transactions._PATIENCE", timedelta(seconds=0.2))
    with socket.create_server(("localhost", 0)) as silent:
        source = Endpoint("A", (("localhost", silent.getsockname()[1]),))
        assert ask_source(source, {HELD.source: 120}) == {}
