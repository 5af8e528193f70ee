"""A broker that lies is refused with an error of ours, in time, and without memory to pay for it."""

import struct
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heliograph.admin.layout import describe_layout
from heliograph.errors import CorruptRecord, KafkaFault, MirrorError
from heliograph.kafka import browse
from heliograph.kafka.browse import Browser
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.kafka.scan import scan
from heliograph.model import ProducerIdentity, TopicPartition
from heliograph.wire.compression import ZSTD, compress
from heliograph.wire.record_batch import build_header
from heliograph.wire.unpack import unpack
from tests.fuzz.liar import (
    END,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    VERSIONS,
    Asked,
    Lie,
    fetched,
    framed,
    liar,
    metadata,
    offsets,
    section,
    uvarint,
)
from tests.fuzz.parsers import batch, message, seal
from tests.fuzz.strategies import spoilt

_PARTITION = TopicPartition("t", 0)
_WITHIN = timedelta(seconds=1)
_PATIENCE = timedelta(seconds=0.2)
_MOST_SECONDS = 60  # what waits for a second here waits for ever where it hangs
_MOST_MB = 60


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for seconds where a mirror waits for a minute."""
    monkeypatch.setattr("heliograph.net.transport.REQUEST_TIMEOUT", _PATIENCE)
    for name in ("_SILENCE", "_PATIENCE", "_OPEN_TRANSACTION"):
        monkeypatch.setattr(f"heliograph.kafka.scan.{name}", _PATIENCE)
    monkeypatch.setattr("heliograph.kafka.browse._PATIENCE", _PATIENCE)
    monkeypatch.setattr("heliograph.kafka.browse._READING", _PATIENCE)


def read_all(cluster: Cluster) -> int:
    read = 0
    ranges = {_PARTITION: (0, END)}
    for _, found in scan(cluster, ranges, committed_only=True, on_gap=lambda *_: None):
        read += len(unpack(found))
    return read


def look(cluster: Cluster) -> int:
    browser = Browser(cluster, _PARTITION)
    return len(browser.read_last(10).records) + len(browser.read_from(0, 10).records)


def ask_offsets(cluster: Cluster) -> int:
    return list_offsets(cluster, [_PARTITION], LATEST)[_PARTITION]


def describe(cluster: Cluster) -> int:
    return len(cluster.describe()) + len(describe_layout(cluster).topics)


DEEDS: list[Callable[[Cluster], int]] = [describe, ask_offsets, read_all, look]


def endure(lies: dict[int, Lie], deed: Callable[[Cluster], int]) -> MirrorError | int:
    """Do something with a broker that lies; return the error, or how much was had."""
    with liar(lies) as broker, closing(Cluster(broker.endpoint, _WITHIN)) as cluster:
        tracemalloc.start()
        began = time.monotonic()
        try:
            try:
                return deed(cluster)
            except MirrorError as exc:
                return exc
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert time.monotonic() - began < _MOST_SECONDS
            assert peak < _MOST_MB << 20, f"{peak >> 20} MB"


@pytest.mark.parametrize("deed", DEEDS)
def test_an_honest_broker_is_believed(deed: Callable[[Cluster], int]) -> None:
    assert endure({}, deed) == [2, END, 3, 6][DEEDS.index(deed)]


def _trickle(asked: Asked, body: bytes) -> Iterator[bytes]:
    for byte in framed(asked, body):
        yield bytes([byte])
        threading.Event().wait(0.05)


def _announced(size: int) -> Lie:
    return lambda *_: struct.pack(">i", size) + bytes(100)


FRAMES: dict[str, Lie] = {
    "2 GB announced": _announced(0x7FFFFFFF),
    "500 MB announced": _announced(500 << 20),
    "negative": _announced(-1),
    "too short": _announced(2),
    "empty body": lambda asked, _: framed(asked, b""),
    "cut": lambda asked, body: framed(asked, body[: len(body) // 2]),
    "ones": lambda asked, _: framed(asked, b"\xff" * 100_000),
    "zeros": lambda asked, _: framed(asked, bytes(100_000)),
    "endless numbers": lambda asked, _: framed(asked, b"\x80" * 300_000),
    "another's answer": lambda asked, body: framed(asked, body, asked.correlation + 1),
    "no answer": lambda *_: b"",
    "trickle": _trickle,
}


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("key", [VERSIONS, METADATA, LIST_OFFSETS, FETCH])
def test_frames_that_lie_are_refused(key: int, frame: str) -> None:
    deed = {VERSIONS: describe, METADATA: describe, LIST_OFFSETS: ask_offsets}.get(key, read_all)
    found = endure({key: FRAMES[frame]}, deed)
    assert isinstance(found, MirrorError) or frame == "zeros"


@pytest.mark.parametrize("frame", FRAMES)
def test_looking_at_a_lying_partition_ends(frame: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # On a busy machine the time for looking could be over before the first lie.
    monkeypatch.setattr(browse, "_READING", timedelta(seconds=_MOST_SECONDS))
    assert isinstance(endure({FETCH: FRAMES[frame]}, look), MirrorError) or frame == "zeros"


def _null(asked: Asked, _: bytes) -> bytes:
    return framed(asked, struct.pack(">i", 0) + bytes(20))


@pytest.mark.parametrize(
    "lie",
    [
        lambda asked, _: framed(asked, metadata(1, index=0x7FFFFFFF)),
        lambda asked, _: framed(asked, metadata(1, index=-7)),
        lambda asked, _: framed(asked, metadata(99_999_999)),
        lambda asked, _: framed(asked, metadata(-1)),
        lambda asked, _: framed(asked, metadata(9, host=b"\0")),
        lambda asked, _: framed(asked, metadata(9, host=b"x" * 300)),
        lambda asked, _: framed(asked, metadata(9, host=b".." * 40)),
        lambda asked, _: framed(asked, metadata(9, host=b"\xff\xfe")),
        lambda asked, _: framed(asked, metadata(9, leader=77)),
        lambda asked, _: framed(asked, metadata(9, leader=-1)),
        _null,
    ],
    ids=[
        "index",
        "below",
        "port",
        "negative",
        "zero",
        "long",
        "dots",
        "bytes",
        "nobody",
        "leaderless",
        "null",
    ],
)
def test_metadata_that_lies_is_refused(lie: Lie) -> None:
    assert isinstance(endure({METADATA: lie}, ask_offsets), MirrorError)


@pytest.mark.parametrize(
    "body",
    [
        offsets(index=5),
        offsets(error=3),
        offsets(error=-1),
        offsets(error=9999),
        bytes(5),
        bytes(30),
    ],
)
def test_offsets_that_lie_are_refused(body: bytes) -> None:
    lies: dict[int, Lie] = {LIST_OFFSETS: lambda asked, _: framed(asked, body)}
    assert isinstance(endure(lies, ask_offsets), MirrorError)
    endure(lies, look)


def test_a_partition_without_an_end_is_looked_at_for_a_while_only() -> None:
    endure({LIST_OFFSETS: lambda asked, _: framed(asked, offsets(2**63 - 1))}, look)
    endure({LIST_OFFSETS: lambda asked, _: framed(asked, offsets(-(2**63)))}, look)


def _moved(offset: int) -> bytes:
    return struct.pack(">q", offset) + batch()[8:]


def _bomb() -> bytes:
    payload = compress(ZSTD, bytes(400 << 20))
    stamps = {"base_timestamp": 0, "max_timestamp": 0}
    nobody = ProducerIdentity(-1, -1)
    head = build_header(payload, attributes=ZSTD, count=3, identity=nobody, sequence=0, **stamps)
    return head + payload


RECORDS: dict[str, bytes] = {
    "nothing": b"",
    "a batch of 2 GB": batch()[:8] + b"\x7f\xff\xff\xff" + batch()[12:],
    "a batch of -1": batch()[:8] + b"\xff\xff\xff\xff" + batch()[12:],
    "a header alone": batch()[:61],
    "an offset below 0": _moved(-9),
    "the last offset": _moved(2**63 - 2),
    "offsets of yesterday": seal(batch()[:23] + b"\xff\xff\xff\xff" + batch()[27:]),
    "half a batch as whole": seal(batch()[:70]),
    "a rotten batch": batch()[:-1] + b"!",
    "an old message below 0": message(-5, 1, 0, b"x"),
    "an old message that never ends": message(2**63 - 1, 0, 0, b"x"),
    "magic 99": batch()[:16] + b"\x63" + batch()[17:],
    "noise": bytes(range(256)) * 50,
}


@pytest.mark.parametrize("deed", [read_all, look])
@pytest.mark.parametrize("records", RECORDS)
def test_records_that_lie_end_in_an_error_or_in_few_records(
    records: str, deed: Callable[[Cluster], int]
) -> None:
    lies: dict[int, Lie] = {
        FETCH: lambda asked, _: framed(asked, fetched(asked.version, section(RECORDS[records])))
    }
    found = endure(lies, deed)
    assert isinstance(found, MirrorError) or found < 20


def test_a_batch_that_unfolds_without_end_costs_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heliograph.wire.unpack.unpack.__defaults__", (8 << 20,))
    monkeypatch.setattr("heliograph.kafka.browse._UNPACKED_BYTES", 8 << 20)
    bomb = _bomb()
    lies: dict[int, Lie] = {
        FETCH: lambda asked, _: framed(asked, fetched(asked.version, section(bomb)))
    }
    refused = endure(lies, read_all)
    assert isinstance(refused, CorruptRecord)
    assert "unfolds to more" in str(refused)
    assert endure(lies, look) == 0


@pytest.mark.parametrize("error", [1, 3, 6, 9, 13, 74, 76, 100, -1, 12345])
def test_errors_without_end_are_not_answered_without_end(error: int) -> None:
    lies: dict[int, Lie] = {
        FETCH: lambda asked, _: framed(asked, fetched(asked.version, section(b"", error)))
    }
    assert isinstance(endure(lies, read_all), (KafkaFault, MirrorError))
    assert isinstance(endure(lies, look), MirrorError)


def test_a_partition_that_is_told_of_twice_is_read_once() -> None:
    lies: dict[int, Lie] = {
        FETCH: lambda asked, _: framed(
            asked, fetched(asked.version, section(batch()), section(batch()), section(batch()))
        )
    }
    assert endure(lies, read_all) == 3


def test_an_answer_without_the_partition_is_refused() -> None:
    lies: dict[int, Lie] = {FETCH: lambda asked, _: framed(asked, fetched(asked.version))}
    assert isinstance(endure(lies, read_all), MirrorError)
    assert isinstance(endure(lies, look), CorruptRecord)


def test_a_count_of_thousands_of_millions_takes_no_time() -> None:
    head = struct.pack(">ihi", 0, 0, 0) + uvarint(2**32 - 1)
    lies: dict[int, Lie] = {FETCH: lambda asked, _: framed(asked, head + bytes(1000))}
    assert isinstance(endure(lies, read_all), MirrorError)


def test_a_connection_that_is_out_of_step_is_not_used_again() -> None:
    lied = []

    def once(asked: Asked, body: bytes) -> bytes:
        lied.append(asked)
        return framed(asked, body, asked.correlation + (1 if len(lied) == 1 else 0))

    with liar({METADATA: once}) as broker, closing(Cluster(broker.endpoint, _WITHIN)) as cluster:
        with pytest.raises(CorruptRecord, match="another request"):
            cluster.describe()
        assert list(cluster.describe()) == ["t"]


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
@pytest.mark.parametrize("key", [VERSIONS, METADATA, LIST_OFFSETS])
def test_a_spoilt_answer_is_read_or_refused(key: int, data: st.DataObject) -> None:
    def spoil(asked: Asked, body: bytes) -> bytes:
        del body
        return framed(asked, chosen)

    honest = {
        VERSIONS: b"\0\0\x02" + struct.pack(">hhhb", METADATA, 0, 12, 0) + bytes(5),
        METADATA: metadata(9),
        LIST_OFFSETS: offsets(),
    }
    chosen = data.draw(spoilt([honest[key]]))
    deed = ask_offsets if key == LIST_OFFSETS else describe
    with (
        suppress(MirrorError),
        liar({key: spoil}) as broker,
        closing(Cluster(broker.endpoint, _WITHIN)) as cluster,
    ):
        deed(cluster)


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
@pytest.mark.parametrize("deed", [read_all, look])
def test_spoilt_records_are_read_or_refused(
    deed: Callable[[Cluster], int], data: st.DataObject
) -> None:
    records = data.draw(spoilt([batch(codec) for codec in range(5)]))
    whole = data.draw(st.booleans())

    def spoil(asked: Asked, body: bytes) -> bytes:
        del body
        return framed(asked, fetched(asked.version, section(seal(records) if whole else records)))

    with (
        suppress(MirrorError),
        liar({FETCH: spoil}) as broker,
        closing(Cluster(broker.endpoint, _WITHIN)) as cluster,
    ):
        deed(cluster)
