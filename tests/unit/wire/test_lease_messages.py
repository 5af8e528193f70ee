import json
from dataclasses import fields
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.errors import CorruptRecord
from heliograph.model import (
    Endpoint,
    Position,
    ProducerIdentity,
    Sasl,
    StopKind,
    Tls,
    TopicPartition,
)
from heliograph.wire.lease_messages import (
    Alive,
    End,
    Fenced,
    Foreign,
    Hello,
    LaneShare,
    Leave,
    Ledger,
    Left,
    Limit,
    Limits,
    Note,
    Order,
    Ping,
    Report,
    Share,
    SlotRead,
    SlotWritten,
    Stopped,
    Take,
    Taken,
    Welcome,
    decode_note,
    decode_order,
    encode_message,
)

texts = st.text(max_size=20)
ints = st.integers(-1, (1 << 63) - 1)
floats = st.floats(-1e9, 1e9, allow_nan=False)
maybe = st.none() | texts
pairs = st.lists(st.tuples(texts, texts), max_size=3).map(tuple)
takens = st.builds(Taken, floats, floats, floats, floats, ints)
runs = st.lists(st.tuples(ints, ints, ints), max_size=3).map(tuple)
slots = st.lists(ints, max_size=4).map(tuple)
places = st.builds(TopicPartition, texts, ints)
identities = st.builds(ProducerIdentity, ints, ints, st.booleans())
names = st.lists(texts, max_size=3).map(tuple)
tls = st.builds(
    Tls,
    **{
        field.name: {"bool": st.booleans(), "str": texts}.get(str(field.type), maybe)
        for field in fields(Tls)
        if field.name not in ("protocols", "cipher_suites")
    },
    protocols=names,
    cipher_suites=names,
)
logins = st.builds(Sasl, texts, pairs, st.none() | tls)
endpoints = st.builds(
    Endpoint,
    texts,
    st.lists(st.tuples(texts, ints), max_size=3).map(tuple),
    texts,
    st.none() | tls,
    st.none() | logins,
)
ledgers = st.builds(Ledger, texts, texts, ints, texts, texts, floats)
shares = st.builds(
    Share,
    slot=ints,
    source=places,
    topic_id=texts,
    remote=places,
    remote_id=texts,
    position=st.builds(Position, ints, ints),
    identity=identities,
    sequence=ints,
    resume=st.booleans(),
    max_message_bytes=ints,
    spread=ints,
    leader_epoch=ints,
    ours=st.booleans(),
)
lanes = st.builds(LaneShare, places, identities, ints, ints)

ORDERS: dict[type, st.SearchStrategy[Any]] = {
    Welcome: st.builds(
        Welcome,
        texts,
        endpoints,
        endpoints,
        st.builds(Limits, ints, ints, ints, ints, st.booleans()),
        st.none() | ledgers,
    ),
    Take: st.builds(
        Take,
        st.lists(shares, max_size=3).map(tuple),
        st.lists(lanes, max_size=3).map(tuple),
    ),
    Leave: st.builds(Leave, slots),
    Limit: st.builds(Limit, ints, ints),
    Alive: st.builds(Alive, ints, floats),
    End: st.builds(End),
}
NOTES: dict[type, st.SearchStrategy[Any]] = {
    Hello: st.builds(Hello, texts, ints, ints, st.text("0123456789abcdef", max_size=32)),
    Report: st.builds(
        Report,
        st.lists(
            st.builds(SlotRead, ints, ints, ints, ints, ints, st.none() | takens), max_size=3
        ).map(tuple),
        st.lists(
            st.builds(
                SlotWritten, ints, ints, ints, ints, ints, ints, runs, ints, st.none() | takens
            ),
            max_size=3,
        ).map(tuple),
        st.none() | st.dictionaries(texts, ints, max_size=3),
        slots,
        st.none() | st.dictionaries(ints, texts, max_size=3),
    ),
    Left: st.builds(
        Left, slots, st.lists(st.tuples(texts, ints, ints), max_size=3).map(tuple), st.booleans()
    ),
    Stopped: st.builds(Stopped, ints, ints, st.sampled_from(StopKind), texts, ints, st.booleans()),
    Foreign: st.builds(Foreign, ints, texts),
    Fenced: st.builds(Fenced, texts),
    Ping: st.builds(Ping, ints),
}
NONSENSE = [
    b"",
    b"\xff\xfe",
    b"7",
    b"[]",
    b"{}",
    b'"Ping"',
    b'{"Ping":{}}',
    b'{"Ping":[]}',
    b'{"Ping":{"number":1,"another":2}}',
    b'{"Ping":{"number":1},"Fenced":{"reason":"x"}}',
    b'{"Pong":{"number":1}}',
    b'{"Take":{"shares":[{}],"lanes":[]}}',
    b'{"Take":{"shares":7,"lanes":[]}}',
    b'{"Leave":{"slots":3}}',
    b'{"Leave":{}}',
    b'{"Welcome":{"flow":"f"}}',
    b'{"Limit":{"slot":1}}',
    b'{"End":7}',
    b'{"Left":{"slots":[],"lanes":[[1]],"behind":false}}',
    b'{"Stopped":{"slot":0,"upstream":0,"kind":"tired","reason":""}}',
    b'{"Report":{"read":[[1]],"written":[],"verdicts":{},"latency":[],"waits":{}}}',
    b'{"Report":{"read":[],"written":[],"verdicts":{},"latency":[],"waits":{"x":"y"}}}',
    b'{"Hello":{"flow":"f","slice_index":"0","task":0,"secret":"s"}}',
    b'{"Hello":{"flow":"f","slice_index":true,"task":0,"secret":"s"}}',
    b'{"Hello":{"flow":"f","slice_index":0,"task":0,"secret":"\\u00e9"}}',
    b"[" * 100_000,
    b'{"Ping":{"number":' + b"9" * 5000 + b"}}",
]


def test_every_kind_of_message_is_tried_here() -> None:
    assert set(ORDERS) == set(get_args(Order))
    assert set(NOTES) == set(get_args(Note))


@pytest.mark.parametrize("kind", ORDERS, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_an_order_comes_back(kind: type, data: st.DataObject) -> None:
    order = data.draw(ORDERS[kind])
    line = encode_message(order)
    assert (line.count(b"\n"), line[-1:]) == (1, b"\n"), "one line each"
    assert decode_order(line) == order


@pytest.mark.parametrize("kind", NOTES, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_a_note_comes_back(kind: type, data: st.DataObject) -> None:
    note = data.draw(NOTES[kind])
    line = encode_message(note)
    assert (line.count(b"\n"), line[-1:]) == (1, b"\n"), "one line each"
    assert decode_note(line) == note


@pytest.mark.parametrize("line", NONSENSE, ids=lambda line: repr(line[:60]))
def test_what_is_no_message_is_corrupt(line: bytes) -> None:
    with pytest.raises(CorruptRecord):
        decode_note(line)
    with pytest.raises(CorruptRecord) as refused:
        decode_order(line)
    assert len(str(refused.value)) < 1000


@given(st.sampled_from([*ORDERS.values(), *NOTES.values()]).flatmap(lambda each: each), st.data())
def test_a_message_that_is_cut_is_corrupt(message: Any, data: st.DataObject) -> None:
    line = encode_message(message).rstrip(b"\n")
    cut = line[: data.draw(st.integers(0, len(line) - 1))]
    for decode in (decode_order, decode_note):
        with pytest.raises(CorruptRecord):
            decode(cut)


def test_orders_are_no_notes() -> None:
    with pytest.raises(CorruptRecord, match="End"):
        decode_note(encode_message(End()))
    with pytest.raises(CorruptRecord, match="Ping"):
        decode_order(encode_message(Ping(1)))


def test_a_stop_says_its_kind_by_name() -> None:
    line = encode_message(Stopped(1, 2, StopKind.TRUNCATED, "so it is"))
    assert json.loads(line)["Stopped"]["kind"] == "target-truncated"


def test_what_two_reports_took_is_one_measure() -> None:
    both = Taken(1, 1, 5, 9, 3) + Taken(4, 0.5, 4, 6, 2)
    assert both == Taken(4, 0.5, 5, 15, 5)
