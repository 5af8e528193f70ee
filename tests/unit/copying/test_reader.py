"""What a reader makes of a broker's answers."""

from dataclasses import replace

import pytest

from heliograph.copying.reader import Reader
from heliograph.copying.sections import ChunkSection
from heliograph.model import StopKind
from heliograph.net.faults import OFFSET_OUT_OF_RANGE
from heliograph.wire.lease_messages import Stopped
from heliograph.wire.records import encode_body
from tests.unit.copying.lanes import Batches
from tests.unit.copying.readers import (
    answer_of,
    answer_with,
    count_asks,
    reader_of,
    response_of,
    section,
)
from tests.unit.copying.targets import LIMITS

NOT_LEADER, UNKNOWN_TOPIC_ID, NOT_ALLOWED = 6, 100, 29
BODIES = [encode_body(None, b"value")] * 3


def index(reader: Reader, *batches: bytes, copies: int = 1) -> list[ChunkSection]:
    return reader._index(response_of(batches, copies))[0]


def test_a_section_ends_with_the_last_whole_batch() -> None:
    source = Batches()
    one, two, three = (source.write(BODIES)[0] for _ in range(3))
    reader = reader_of(1)

    (found,) = index(reader, one, two, three[:-1])

    assert found == ChunkSection(0, 0, len(one + two), 506)
    assert reader._fetcher._subjects[0].position == 506, "the third is asked for again"


def test_a_partition_of_which_nothing_whole_came_has_no_section() -> None:
    assert index(reader_of(1), Batches().write(BODIES)[0][:-1]) == []


def test_a_batch_that_was_read_before_takes_no_position_back() -> None:
    before, _ = Batches(490).write(BODIES)
    reader = reader_of(1)

    (found,) = index(reader, before)

    assert found.upstream == 500


def test_aborted_transactions_are_told_where_they_are_left_out() -> None:
    batch, _ = Batches().write(BODIES)
    answer = response_of([batch], aborted=((77, 500),))
    (committed,), _ = reader_of(1)._index(answer)
    (everything,), _ = reader_of(1, limits=replace(LIMITS, read_committed=False))._index(answer)
    assert (committed.aborted, everything.aborted) == (((77, 500),), ())


def test_how_far_a_partition_is_is_told_once() -> None:
    batch, _ = Batches().write(BODIES)
    reader = reader_of(2)
    reader._index(response_of([batch], last_stable=880))

    (told,) = reader.news()

    assert (told.slot, told.upstream, told.end, told.stable) == (0, 503, 900, 880)
    assert told.age is not None
    assert told.age.records == 1
    assert not reader.has_news
    assert reader.news() == ()
    reader._index(answer_of(section(1, high_watermark=910, last_stable=-1)))
    (other,) = reader.news()
    assert (other.slot, other.end, other.stable, other.age) == (1, 910, 910, None)


def test_the_last_news_of_a_partition_that_was_left_are_told() -> None:
    batch, _ = Batches().write(BODIES)
    reader = reader_of(1)
    index(reader, batch)
    reader.leave(0)

    assert [told.upstream for told in reader.news()] == [503]
    assert index(reader, batch) == [], "what was on its way is nobody's"
    assert reader.news() == ()


@pytest.mark.parametrize(
    ("told", "kind", "resume"),
    [
        ({"error": OFFSET_OUT_OF_RANGE}, StopKind.OUT_OF_RANGE, -1),
        ({"error": NOT_ALLOWED}, StopKind.REFUSED, -1),
        ({"parted": 480}, StopKind.OUT_OF_RANGE, 480),
    ],
)
def test_what_does_not_pass_stops_one_partition(
    told: dict[str, int], kind: StopKind, resume: int
) -> None:
    stops: list[Stopped] = []
    reader = reader_of(2, stops.append)

    reader._index(answer_of(section(0, **told), section(1)))

    (stop,) = stops
    assert (stop.slot, stop.upstream, stop.kind, stop.resume) == (0, 500, kind, resume)
    assert not stop.spent, "nothing was sent because of it"
    assert [reader._fetcher.fetches(slot) for slot in range(2)] == [False, True]


def test_a_topic_that_is_unknown_for_a_moment_is_asked_for_again_and_then_counts_as_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stops: list[Stopped] = []
    reader = reader_of(2, stops.append)

    reader._index(answer_of(section(0, error=UNKNOWN_TOPIC_ID)))
    assert stops == []
    assert [slot for slot, _ in reader.waits()] == [0]
    reader._index(answer_of(section(0)))
    assert list(reader.waits()) == [], "a broker that has just started did not know it yet"

    monkeypatch.setattr("heliograph.copying.reader._DOUBT", -1.0)
    reader._index(answer_of(section(0, error=UNKNOWN_TOPIC_ID)))
    assert [(s.slot, s.kind, s.spent) for s in stops] == [(0, StopKind.LOST_TOPIC, False)]


def test_a_batch_of_no_size_stops_its_partition_before_it() -> None:
    stops: list[Stopped] = []
    reader = reader_of(2, stops.append)
    batch, _ = Batches().write(BODIES)
    cursed = batch[:8] + b"\xff\xff\xff\xff" + batch[12:]
    answer = response_of([cursed])

    sections, _ = reader._index(answer)

    assert sections == []
    assert [(s.slot, s.upstream, s.kind) for s in stops] == [(0, 500, StopKind.CORRUPT)]


def test_a_leader_that_is_none_any_more_is_waited_for_and_looked_for() -> None:
    stops: list[Stopped] = []
    reader = reader_of(2, stops.append)

    reader._index(answer_of(section(0, error=NOT_LEADER)))

    assert dict(reader.waits()) == {0: "t-0: the source answers NOT_LEADER_FOR_PARTITION"}
    assert reader.next_at(room=True) < float("inf"), "it is looked for without an event"
    reader.ask(room=False)
    assert reader.next_at(room=True) == float("inf"), "it is found"
    reader._index(answer_of(section(0)))
    assert dict(reader.waits()) == {}
    assert stops == []


def test_a_reader_rests_longer_the_more_came_and_never_long() -> None:
    reader = reader_of(1)
    assert reader._rest(0.0, 0) == 0
    assert 0 < reader._rest(0.0, 1) < reader._rest(0.0, 5) <= reader._rest(1.0, 5) < 0.1


def test_a_rest_that_ends_unseen_is_still_an_errand(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop asks, works on for a moment, and then looks how long it may wait: a rest may end between the two."""
    now = 100.0
    monkeypatch.setattr("heliograph.copying.reader.time.monotonic", lambda: now)
    batch, _ = Batches().write(BODIES)
    reader = reader_of(1)
    answer_with(reader, response_of([batch]))
    end = reader.next_at(room=True)
    assert now < end < now + 1, "it rests: so few records came"
    asked = count_asks(reader)

    reader.ask(room=True)
    now = end + 0.001

    assert reader.next_at(room=True) <= now, "else nothing is asked until something else happens"
    assert reader.next_at(room=False) == float("inf"), "an answer makes room, and wakes the loop"
    reader.ask(room=False)
    assert not asked
    reader.ask(room=True)
    assert len(asked) == 1
    assert reader.next_at(room=True) == float("inf"), "nothing is due until the broker answers"
