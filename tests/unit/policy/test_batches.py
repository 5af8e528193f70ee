import itertools
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.policy.batches import (
    SMALL_BYTES,
    SMALL_RECORDS,
    AbortedTransactions,
    Verdict,
    judge,
)
from heliograph.wire.record_batch import (
    APPEND_TIME,
    CONTROL,
    DELETE_HORIZON,
    TRANSACTIONAL,
    BatchHeader,
)


def header(
    base_offset: int = 0,
    *,
    records: int = 100,
    last_offset_delta: int | None = None,
    attributes: int = 0,
    magic: int = 2,
    producer_id: int = -1,
) -> BatchHeader:
    return BatchHeader(
        base_offset=base_offset,
        length=1000,
        leader_epoch=0,
        magic=magic,
        crc=0,
        attributes=attributes,
        last_offset_delta=records - 1 if last_offset_delta is None else last_offset_delta,
        base_timestamp=0,
        max_timestamp=0,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        records=records,
    )


# A control batch is dropped before it is judged.
@pytest.mark.parametrize("attributes", [bits for bits in range(128) if not bits & CONTROL])
def test_only_codec_and_transaction_bits_are_passed_on(attributes: int) -> None:
    large, small = (
        judge(header(records=n, attributes=attributes), size, target_max_bytes=1 << 20)
        for n, size in ((100, 50_000), (1, 100))
    )

    if attributes & (APPEND_TIME | DELETE_HORIZON):
        assert large is small is Verdict.REENCODE
    else:
        assert (large, small) == (Verdict.PASS, Verdict.MERGE)


@pytest.mark.parametrize("magic", [0, 1])
def test_an_old_magic_is_encoded_again(magic: int) -> None:
    assert judge(header(magic=magic), 5000, target_max_bytes=1 << 20) is Verdict.REENCODE


@pytest.mark.parametrize("size", [100, 50_000])
def test_holes_are_closed(size: int) -> None:
    holes = header(records=3, last_offset_delta=3)

    assert judge(holes, size, target_max_bytes=1 << 20) is Verdict.REENCODE


@pytest.mark.parametrize(
    ("size", "verdict"), [(2000, Verdict.PASS), (2001, Verdict.REENCODE)], ids=["fits", "too large"]
)
def test_what_the_target_does_not_take_is_split(size: int, verdict: Verdict) -> None:
    assert judge(header(), size, target_max_bytes=2000) is verdict


@pytest.mark.parametrize(
    ("records", "size", "verdict"),
    [
        (SMALL_RECORDS, SMALL_BYTES, Verdict.MERGE),
        (SMALL_RECORDS + 1, SMALL_BYTES, Verdict.PASS),
        (SMALL_RECORDS, SMALL_BYTES + 1, Verdict.PASS),
    ],
)
def test_small_is_few_records_in_few_bytes(records: int, size: int, verdict: Verdict) -> None:
    assert judge(header(records=records), size, target_max_bytes=1 << 20) is verdict


@dataclass
class Entry:
    """A batch of a log, and whether a read_committed consumer sees it."""

    header: BatchHeader
    visible: bool


@dataclass
class Log:
    entries: list[Entry]
    aborted: list[tuple[int, int, int]]
    """Producer, first and last offset of each aborted transaction."""


# Producer 0..2, what it does, how many records: a script of interleaved transactions.
steps = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["send", "send", "send", "plain", "commit", "abort"]),
        st.integers(1, 5),
    ),
    max_size=40,
)


def play(script: list[tuple[int, str, int]]) -> Log:
    """Write a log as a broker does: each marker ends its producer's transaction; open ones abort at last."""
    log = Log([], [])
    open_: dict[int, list[Entry]] = {}
    offset = itertools.count()
    ends = [(producer, "abort", 1) for producer in range(3)]
    for producer, action, count in [*script, *ends]:
        base = next(offset)
        if action in ("commit", "abort"):
            for entry in open_.get(producer, []):
                entry.visible = action == "commit"
            if action == "abort" and open_.get(producer):
                log.aborted.append((producer, open_[producer][0].header.base_offset, base))
            open_[producer] = []
            flags = CONTROL | TRANSACTIONAL
            marker = header(base, records=1, attributes=flags, producer_id=producer)
            log.entries.append(Entry(marker, visible=False))
            continue
        for _ in range(count - 1):
            next(offset)
        if action == "plain":
            # An idempotent producer without transactions has an id of its own.
            written = header(base, records=count, producer_id=producer + 10)
            log.entries.append(Entry(written, visible=True))
        else:
            written = header(base, records=count, attributes=TRANSACTIONAL, producer_id=producer)
            entry = Entry(written, visible=True)
            open_.setdefault(producer, []).append(entry)
            log.entries.append(entry)
    return log


@given(steps, st.data())
def test_what_is_delivered_is_what_read_committed_shows(
    script: list[tuple[int, str, int]], data: st.DataObject
) -> None:
    log = play(script)
    start = data.draw(st.integers(0, len(log.entries) - 1))
    stop = data.draw(st.integers(start, len(log.entries)))
    fetched = log.entries[start:stop]
    first = log.entries[start].header.base_offset
    last = fetched[-1].header.next_offset - 1 if fetched else first
    # A broker lists the aborted transactions that touch the fetched range, in no promised order.
    listed = [(p, begin) for p, begin, end in log.aborted if begin <= last and end >= first]

    aborted = AbortedTransactions(data.draw(st.permutations(listed)))

    assert [aborted.delivers(entry.header) for entry in fetched] == [e.visible for e in fetched]


def test_without_aborted_transactions_everything_but_markers_is_delivered() -> None:
    aborted = AbortedTransactions([])

    assert aborted.delivers(header(0, attributes=TRANSACTIONAL, producer_id=1))
    assert not aborted.delivers(header(100, attributes=TRANSACTIONAL | CONTROL, producer_id=1))
    assert aborted.delivers(header(101, producer_id=1))


def test_records_outside_transactions_are_delivered_inside_an_aborted_one() -> None:
    aborted = AbortedTransactions([(1, 0)])

    assert not aborted.delivers(header(0, records=1, attributes=TRANSACTIONAL, producer_id=1))
    assert aborted.delivers(header(1, records=1, producer_id=1))
    assert aborted.delivers(header(2, records=1))
