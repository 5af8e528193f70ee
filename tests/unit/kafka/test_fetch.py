"""Where responses are received, with brokers that send them in pieces."""

import struct
from collections.abc import Iterable
from uuid import UUID

import pytest

from heliograph.kafka.cluster import Described, Topic
from heliograph.kafka.fetch import Fetcher, FetchLimits, Response, Session, Subject
from heliograph.model import TopicPartition
from tests.fuzz.liar import fetched, section
from tests.unit.kafka.channels import Two


def fetcher_of(brokers: Two) -> Fetcher:
    fetcher = Fetcher(brokers, FetchLimits())
    for index in range(2):
        fetcher.add([Subject(index, TopicPartition("t", index), UUID(int=1), 0)])
    assert fetcher.place() == {}
    return fetcher


def ask(fetcher: Fetcher, brokers: Two, *records: bytes) -> None:
    fetcher.ask()
    for index, its in enumerate(records):
        brokers.channels[index].answer(b"\0" + fetched(13, section(its, index=index)))


def taken(fetcher: Fetcher, sessions: Iterable[Session]) -> list[memoryview]:
    """Return the records of some responses, as views of what was received."""
    found = []
    for session in sessions:
        response = fetcher.take(session)
        assert isinstance(response, Response)
        (one,) = response.sections
        found.append(response.buffer[one.start : one.end])
    return found


def test_responses_of_two_brokers_that_come_in_turns_are_received_apart() -> None:
    brokers = Two()
    fetcher = fetcher_of(brokers)
    for first, second in [(b"a" * 3000, b"b" * 2000), (b"c" * 1000, b"d" * 2500)]:
        ask(fetcher, brokers, first, second)
        brokers.channels[0].arrive(0.5)
        assert fetcher.collect({0}) == []
        brokers.channels[1].arrive()
        assert [bytes(view) for view in taken(fetcher, fetcher.collect({1}))] == [second]
        brokers.channels[0].arrive()
        assert [bytes(view) for view in taken(fetcher, fetcher.collect({0}))] == [first]


def test_responses_that_are_whole_together_are_taken_one_after_the_other() -> None:
    brokers = Two()
    fetcher = fetcher_of(brokers)
    for _ in range(2):
        ask(fetcher, brokers, b"a" * 3000, b"b" * 3000)
        for channel in brokers.channels:
            channel.arrive()
        sessions = fetcher.collect({0, 1})
        assert [bytes(view) for view in taken(fetcher, sessions)] == [b"a" * 3000, b"b" * 3000]


def test_where_there_is_no_room_a_response_gets_memory_of_its_own() -> None:
    """What came before is held: its batches are not stored yet."""
    brokers = Two()
    fetcher = fetcher_of(brokers)
    pool = [bytearray(10_000)]

    def room(_size: int) -> memoryview | None:
        return memoryview(pool.pop()) if pool else None

    held: list[memoryview] = []
    for letter in b"abcd":
        ask(fetcher, brokers, bytes([letter]) * 3000, bytes([letter]) * 2000)
        for channel in brokers.channels:
            channel.arrive()
        held += taken(fetcher, fetcher.collect({0, 1}, room))

    assert [set(bytes(view)) for view in held] == [{letter} for letter in b"aabbccdd"]
    assert [len(view) for view in held] == [3000, 2000] * 4


def test_without_a_room_memory_is_used_again_for_the_broker_s_next_response() -> None:
    brokers = Two()
    fetcher = fetcher_of(brokers)
    memory = set()
    for _ in range(5):
        ask(fetcher, brokers, b"a" * 3000, b"b" * 3000)
        for channel in brokers.channels:
            channel.arrive()
        memory |= {id(view.obj) for view in taken(fetcher, fetcher.collect({0, 1}))}
    assert len(memory) == 2


NOBODY_FORGOTTEN = b"\x01" + b"\x01\0"  # an empty array, no rack, no tagged fields


def test_a_partition_that_is_asked_for_again_under_another_slot_is_not_forgotten() -> None:
    """A broker forgets after it has added, so it would never send that partition again."""
    brokers = Two()
    fetcher = fetcher_of(brokers)
    ask(fetcher, brokers, b"a", b"b")
    for channel in brokers.channels:
        channel.arrive()
    for session in fetcher.collect({0, 1}):
        session.session_id = 9
        fetcher.take(session)
        session.session_id = 9
    fetcher.remove(0)
    fetcher.add([Subject(7, TopicPartition("t", 0), UUID(int=1), 5)])
    fetcher.place()

    fetcher.ask()

    again = brokers.channels[0].sent[-1]
    assert struct.pack(">iiq", 0, -1, 5) in again
    assert again.endswith(NOBODY_FORGOTTEN)


def test_a_partition_that_is_wanted_no_more_is_forgotten_once() -> None:
    brokers = Two()
    fetcher = fetcher_of(brokers)
    fetcher.add([Subject(7, TopicPartition("u", 0), UUID(int=2), 5)])
    fetcher.place()
    sent = []
    for _ in range(3):
        ask(fetcher, brokers, b"a", b"b")
        for channel in brokers.channels:
            channel.arrive()
        for session in fetcher.collect({0, 1}):
            fetcher.take(session)
            session.session_id = 9
        fetcher.remove(7)
        sent.append(brokers.channels[0].sent[-1])

    forgotten = b"\x02" + UUID(int=2).bytes + b"\x02" + struct.pack(">i", 0) + b"\0" + b"\x01\0"
    assert [request.endswith(forgotten) for request in sent] == [False, True, False]


def test_what_was_asked_for_by_another_slot_is_not_taken_for_the_new_one_s() -> None:
    """It may begin far behind the new one's position: what lies between would be left out."""
    brokers = Two()
    fetcher = fetcher_of(brokers)
    ask(fetcher, brokers, b"of slot 0", b"of slot 1")
    fetcher.remove(0)
    fetcher.add([Subject(7, TopicPartition("t", 0), UUID(int=1), 5)])
    fetcher.place()
    for channel in brokers.channels:
        channel.arrive()
    sections = []
    for session in fetcher.collect({0, 1}):
        response = fetcher.take(session)
        assert response is not None
        sections += [each.slot for each in response.sections]
    assert sections == [1]

    fetcher.ask()
    assert struct.pack(">iiq", 0, -1, 5) in brokers.channels[0].sent[-1]


def wait_of(request: bytes) -> int:
    """Return how long a fetch request has its broker wait for news, in milliseconds."""
    (_, wait_ms) = struct.unpack_from(">ii", request)
    return int(wait_ms)


def test_a_partition_that_comes_while_a_broker_has_no_news_does_not_wait_for_its_answer() -> None:
    brokers = Two()
    fetcher = fetcher_of(brokers)
    ask(fetcher, brokers, b"a", b"b")

    fetcher.add([Subject(7, TopicPartition("t", 0), UUID(int=3), 5)])
    fetcher.place()
    fetcher.ask()

    first, beside = brokers.channels[0], brokers.beside[0]
    assert len(beside.sent) == 1
    assert wait_of(beside.sent[0]) < wait_of(first.sent[0])


def test_partitions_that_came_one_after_the_other_end_no_connection() -> None:
    """Each new one once tore down the second connection, and what was on its way to its neighbours."""
    brokers = Two()
    fetcher = fetcher_of(brokers)
    ask(fetcher, brokers, b"a", b"b")
    for slot in (7, 8, 9):
        fetcher.add([Subject(slot, TopicPartition("t", 0), UUID(int=slot), slot)])
        fetcher.place()
        fetcher.ask()
        assert not fetcher.homeless
        brokers.beside[0].answer(b"\0" + fetched(13))
        brokers.beside[0].arrive()
        for session in fetcher.collect({2}):
            fetcher.take(session)
    fetcher.ask()
    last = brokers.beside[0].sent[-1]
    assert all(struct.pack(">iiq", 0, -1, slot) in last for slot in (7, 8, 9)), "nothing was lost"
    assert len(brokers.channels[0].sent) == 1, "the first one waits for news"


def test_the_first_connection_takes_over_what_came_while_it_was_not_free() -> None:
    brokers = Two()
    fetcher = fetcher_of(brokers)
    ask(fetcher, brokers, b"a", b"b")
    fetcher.add([Subject(7, TopicPartition("u", 0), UUID(int=3), 5)])
    fetcher.place()
    fetcher.ask()
    brokers.channels[0].arrive()
    for session in fetcher.collect({0}):
        fetcher.take(session)

    fetcher.ask()
    assert struct.pack(">iiq", 0, -1, 5) in brokers.channels[0].sent[-1]

    # What the second one brings now would be copied twice.
    brokers.beside[0].answer(b"\0" + fetched(13, section(b"twice")))
    brokers.beside[0].arrive()
    (late,) = fetcher.collect({2})
    response = fetcher.take(late)
    assert response is not None
    assert response.sections == []
    asked = len(brokers.beside[0].sent)
    fetcher.ask()
    assert len(brokers.beside[0].sent) == asked, "nothing is left there to ask for"


def test_an_answer_that_makes_no_sense_ends_its_connection_alone() -> None:
    brokers = Two()
    brokers.may_drop = True
    fetcher = fetcher_of(brokers)
    ask(fetcher, brokers, b"a", b"b")
    brokers.channels[0].answer(b"\0\0\0")
    for channel in brokers.channels:
        channel.arrive()
    found = {s.node: fetcher.take(s) is not None for s in fetcher.collect({0, 1})}
    assert found == {0: False, 1: True}
    assert fetcher.homeless
    why = fetcher.place()
    assert why is not None
    assert "ends early" in why[0]


@pytest.mark.timeout(60)
def test_where_nothing_could_be_asked_nothing_is_waited_for() -> None:
    """As where a login has ended: the next connection is made at the next `place`."""
    brokers = Two()
    fetcher = fetcher_of(brokers)
    assert fetcher.ready(3600) == []
    ask(fetcher, brokers, b"a", b"b")
    for channel in brokers.channels:
        channel.arrive()
    assert len(fetcher.collect({0, 1})) == 2


def test_without_a_session_what_brought_data_is_asked_for_last() -> None:
    """A broker whose cache of sessions is full answers in the order of the question, up to so many bytes."""
    fetcher = Fetcher(Two(), FetchLimits())
    for slot in range(3):
        fetcher.add([Subject(slot, TopicPartition(f"t{slot}", 0), UUID(int=slot + 1), 0)])
    fetcher.place()
    (session,) = fetcher._sessions.values()

    fetcher.moved(0, 10)
    fetcher.moved(1, 10)
    assert list(session.subjects) == [2, 0, 1]
    session.session_id = 5
    fetcher.moved(2, 10)
    assert list(session.subjects) == [2, 0, 1], "with a session the broker sees to it"


class Led(Two):
    """Two brokers, of which one leads both partitions, in some term."""

    leader, term = 0, 3

    def describe_each(self, names: Iterable[str]) -> Described:
        topic = Topic("t", UUID(int=1), (self.leader,) * 2, False, (), (self.term,) * 2)
        return Described(dict.fromkeys(names, topic), {})


def test_a_leader_that_does_not_know_its_successor_is_left() -> None:
    """It is cut off from its cluster, and not from here: it goes on answering that there is nothing new."""
    brokers = Led()
    fetcher = fetcher_of(brokers)
    assert fetcher.follow_leaders()
    assert not fetcher.homeless

    brokers.leader, brokers.term = 1, 4
    assert fetcher.follow_leaders()
    assert fetcher._homeless == {0, 1}
    assert fetcher.place() == {}
    assert [subject.session.node for subject in fetcher._subjects.values() if subject.session] == [
        1,
        1,
    ]


def test_an_older_answer_moves_nothing_back() -> None:
    brokers = Led()
    fetcher = fetcher_of(brokers)
    brokers.leader, brokers.term = 1, 2

    assert fetcher.follow_leaders()
    assert not fetcher.homeless
    fetcher.lost_leader([0])
    assert fetcher.place() == {0: "t-0: the broker that was asked for its leader knows an old one"}
