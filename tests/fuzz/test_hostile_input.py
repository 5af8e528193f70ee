"""Bytes that once crashed a parser, or took it too long or too much memory."""

import gzip
import json
import socket
import struct
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from heliograph.config.access import parse_entries
from heliograph.config.mistakes import InvalidSetting, UnreadableFile
from heliograph.config.properties import parse_json, parse_properties, properties_of, read_file
from heliograph.config.providers import resolve
from heliograph.copying.packing import Packer
from heliograph.driving.lease_server import LeaseServer
from heliograph.errors import ConfigError, CorruptRecord
from heliograph.model import ProducerIdentity
from heliograph.wire.assignments import decode_assignment
from heliograph.wire.compression import GZIP, SNAPPY, ZSTD, compress, decompress
from heliograph.wire.connect_state import decode_config_row
from heliograph.wire.hold_records import decode_hold
from heliograph.wire.lease_messages import decode_note
from heliograph.wire.mirror_records import decode_checkpoint
from heliograph.wire.primitives import encode_string
from heliograph.wire.record_batch import build_header, find_batches, next_offset_of, read_header
from heliograph.wire.records import RawRecord, encode_body, join_records
from heliograph.wire.share_records import decode_given, decode_told
from heliograph.wire.unpack import UNPACKED_LIMIT, unpack
from tests.fuzz.parsers import PARSERS, batch, message, seal, wrapper
from tests.unit.copying.lanes import make_slot

_NOBODY = ProducerIdentity(-1, -1)
_MB = 1 << 20


@contextmanager
def at_most(megabytes: int, seconds: float = 5) -> Iterator[None]:
    """Fail if what happens inside takes more memory than that, or 25 times the processor time that it should."""
    tracemalloc.start()
    began = time.process_time()
    try:
        yield
        taken, peak = time.process_time() - began, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < megabytes * _MB, f"{peak >> 20} MB"
    assert taken < seconds, f"{taken:.1f} s"


def forged(payload: bytes, codec: int, count: int) -> bytes:
    """Return a batch whose header says what we like, with a checksum that fits."""
    stamps = {"base_timestamp": 0, "max_timestamp": 0}
    return (
        build_header(payload, attributes=codec, count=count, identity=_NOBODY, sequence=0, **stamps)
        + payload
    )


def test_thousands_of_gzip_members_are_read_in_linear_time() -> None:
    members = gzip.compress(b"") * 20_000
    with at_most(20):
        assert decompress(GZIP, members, _MB) == b""
    assert decompress(GZIP, gzip.compress(b"ab") + gzip.compress(bytes(5000)), _MB)[:2] == b"ab"


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_batch_that_unfolds_without_end_is_refused_before_it_does(codec: int) -> None:
    bomb = forged(compress(codec, bytes(40 * _MB)), codec, 1)
    with at_most(40), pytest.raises(CorruptRecord, match="unfolds to more"):
        unpack(memoryview(bomb), 8 * _MB)


def test_a_snappy_block_cannot_claim_more_than_its_format_can_say() -> None:
    claims = b"\x80\x80\x80\x40" + b"\0a"  # 128 MB, in one literal of a byte
    with at_most(1), pytest.raises(CorruptRecord, match="claims to unfold"):
        decompress(SNAPPY, claims, UNPACKED_LIMIT)


def test_a_batch_of_countless_tiny_records_is_refused_by_its_count() -> None:
    tiny = forged(compress(ZSTD, b"\x08\0\0\0\1" * (4 * _MB)), ZSTD, 4 * _MB)
    with at_most(2), pytest.raises(CorruptRecord, match="claims 4194304 records"):
        unpack(memoryview(tiny))


def test_old_messages_share_one_limit_however_many_unfold() -> None:
    inner = message(0, 1, 0, bytes(3 * _MB))
    wrappers = b"".join(wrapper(GZIP, 1, inner, offset=index) for index in range(4))
    with at_most(40), pytest.raises(CorruptRecord, match="unfolds to more"):
        unpack(memoryview(wrappers), 8 * _MB)


def test_inner_offsets_of_an_old_message_go_up() -> None:
    inner = message(5, 1, 0, b"a") + message(2, 1, 0, b"b")
    with pytest.raises(CorruptRecord, match="inner offsets"):
        unpack(memoryview(wrapper(GZIP, 1, inner)))


@pytest.mark.parametrize("count", [0, 1, 4, 2**31 - 1])
def test_a_record_count_that_the_payload_does_not_hold_is_refused(count: int) -> None:
    payload, _, _ = join_records([RawRecord(0, 0, 0, encode_body(b"k", b"v"))] * 3)
    with pytest.raises(CorruptRecord):
        unpack(memoryview(forged(payload, 0, count)))


def test_a_batch_does_not_hold_offsets_behind_its_own_end() -> None:
    spoilt = bytearray(batch(0, 3))
    spoilt[23:27] = struct.pack(">i", 1)  # the last offset delta; three records follow
    with pytest.raises(CorruptRecord, match="claims to end before"):
        unpack(memoryview(seal(bytes(spoilt))))


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, struct.pack(">q", -1)),
        (0, struct.pack(">q", 2**63 - 1)),
        (23, struct.pack(">i", -1)),
        (57, struct.pack(">i", -5)),
    ],
    ids=["before 0", "no end", "backwards", "count"],
)
def test_a_header_that_cannot_be_is_refused_where_it_is_read(at: int, value: bytes) -> None:
    spoilt = bytearray(batch())
    spoilt[at : at + len(value)] = value
    with pytest.raises(CorruptRecord):
        next_offset_of(spoilt, 0)


def test_a_batch_shorter_than_its_header_is_no_batch() -> None:
    short = struct.pack(">qiib", 0, 20, 0, 2) + bytes(60)
    with pytest.raises(CorruptRecord, match="size of 32 bytes"):
        list(find_batches(short, 0, len(short)))
    with pytest.raises(CorruptRecord, match="shorter than its header"):
        read_header(short[:40], 0)
    with pytest.raises(CorruptRecord, match="shorter than its header"):
        unpack(memoryview(short[:10]))


def test_a_batch_of_an_unknown_magic_is_refused() -> None:
    spoilt = bytearray(batch())
    spoilt[16] = 3
    with pytest.raises(CorruptRecord, match="magic 3"):
        unpack(memoryview(bytes(spoilt)))


def test_a_small_batch_that_is_large_inside_is_passed_and_not_merged() -> None:
    payload, _, _ = join_records([RawRecord(0, 0, 0, encode_body(b"k", bytes(60 * _MB)))])
    folded = forged(compress(ZSTD, payload), ZSTD, 1)
    assert len(folded) < 8 << 10
    packer = Packer(make_slot(_MB), 256 << 10, Counter())
    with at_most(10):
        (sent,) = packer.add(memoryview(folded), read_header(folded, 0))
    assert sent.payload == folded[61:]


def test_a_note_that_repeats_what_came_is_refused_in_few_words() -> None:
    long = "x" * 100_000
    notes: list[dict[str, object]] = [{"Stopped": {"kind": long}}, {"Ping": {long: 1}}]
    for note in (*notes, {long: {}}, {long: 7}):
        with pytest.raises(CorruptRecord) as refused:
            decode_note(json.dumps(note).encode())
        assert len(str(refused.value)) < 500


def test_an_assignment_that_is_cut_is_not_taken_for_a_smaller_one() -> None:
    whole = b"\0\1" + struct.pack(">i", 1) + encode_string("t") + struct.pack(">iii", 2, 0, 1)
    assert len(decode_assignment(whole)) == 2
    with pytest.raises(CorruptRecord, match="claims 2 items"):
        decode_assignment(whole[:-4])


def test_a_commit_with_deep_lists_is_corrupt() -> None:
    deep = b'{"tasks":' + b"[" * 900 + b"]" * 900 + b"}"
    with pytest.raises(CorruptRecord):
        decode_config_row(b"commit-a", deep)


@pytest.mark.parametrize(
    "changed",
    [
        {"since": float("inf")},
        {"since": 10**300},
        {"since": True},
        {"groups": "abc"[:1] * 2, "since": None},
        {"groups": [1]},
        {"groups": ["\ud800"]},
        {"action": ["x"]},
        {"ranges": [["t", 0, 1, 2, 3, 1e999]]},
    ],
    ids=str,
)
def test_a_hold_that_holds_nonsense_is_corrupt(changed: dict[str, object]) -> None:
    good = {"since": 1, "phase": "failed over", "groups": [], "action": None, "ranges": []}
    assert decode_hold(b"A->B", json.dumps(good).encode()).since_ms == 1
    with pytest.raises(CorruptRecord):
        decode_hold(b"A->B", json.dumps({**good, **changed}).encode())


def test_workers_names_are_texts() -> None:
    with pytest.raises(CorruptRecord):
        decode_told(b'{"url":"u","generation":1,"connectors":[["a"]]}')
    with pytest.raises(CorruptRecord):
        decode_given(b'{"leader":"u","connectors":["a"],"owners":{"a":7}}')
    with pytest.raises(CorruptRecord):
        decode_given(b'{"leader":"\\ud800","connectors":[],"owners":{}}')


def test_an_error_shows_the_first_bytes_and_not_all() -> None:
    with pytest.raises(CorruptRecord) as refused:
        decode_checkpoint(b"\xff" * _MB, bytes(_MB))
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize("value", ["${" + ":" * 100_000, "${" * 100_000, "${a:" * 50_000 + "}"])
def test_expressions_are_looked_for_in_linear_time(value: str) -> None:
    with at_most(50, seconds=2):
        resolve(properties_of({"key": value}, "a connector"), {}, {})


def test_a_secret_that_is_no_text_is_a_mistake_and_no_crash(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"\xff\xfe")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")

    def look(value: str) -> str:
        return resolve(properties_of({"key": value}, "c"), {}).entries["key"]

    with pytest.raises(InvalidSetting, match="not UTF-8"):
        look(f"${{dir:{tmp_path}:secret}}")
    with pytest.raises(InvalidSetting, match="cannot be read"):
        look(f"${{dir:{tmp_path}:{'x' * 5000}}}")
    assert look("${dir:/a\0b:x}") == "${dir:/a\0b:x}"
    assert look("${file:/a\0b:x}") == "${file:/a\0b:x}"
    circle = f"${{file:{tmp_path}/circle:x}}"
    assert look(circle) == circle


def test_a_pattern_of_variables_that_is_none_is_a_mistake() -> None:
    declared = {
        "config.providers": "env",
        "config.providers.env.class": "EnvVarConfigProvider",
        "config.providers.env.param.allowlist.pattern": "(",
    }
    with pytest.raises(ConfigError, match="regular expression"):
        resolve(properties_of({"a": "${env:X}"}, "c"), {"X": "1"}, declared)


def test_a_file_without_an_end_is_not_read_to_it() -> None:
    with at_most(40), pytest.raises(UnreadableFile, match="more than 16 MB"):
        read_file(Path("/dev/zero"))


@pytest.mark.parametrize(
    "content",
    [b'{"a":' + b"9" * 5000 + b"}", b"[" * 100_000, b'{"a":"\\ud800"}', b'{"\\ud800":"a"}'],
    ids=["long", "deep", "half a value", "half a key"],
)
def test_json_that_python_cannot_hold_is_a_mistake(content: bytes) -> None:
    with pytest.raises(UnreadableFile):
        parse_json(content, "f")


def test_half_a_character_is_a_mistake_in_properties_too() -> None:
    with pytest.raises(UnreadableFile, match="half a character"):
        parse_properties(b"client.id=a\\ud800", "f")
    assert parse_properties(b"a=\\ud83d\\ude00", "f").entries["a"] == "\U0001f600"


@pytest.mark.parametrize("costs", ["16$1$1", "17$1$1"])
def test_costs_that_no_library_takes_are_found_when_the_file_is_read(costs: str) -> None:
    line = f"view:ann:scrypt${costs}${'QUFB' * 8}${'QUFB' * 16}"
    with pytest.raises(ConfigError):
        parse_entries(line, "f")


def test_low_costs_with_many_lanes_still_answer() -> None:
    (entry,) = parse_entries(f"view:ann:scrypt$1$8$4${'QUFB' * 8}${'QUFB' * 16}", "f")
    assert not entry.proof.fits("guess")


def test_a_varint_without_an_end_takes_no_time_in_any_codec() -> None:
    (metadata,) = [parser for parser in PARSERS if parser.name == "metadata"]
    with at_most(5, seconds=1), pytest.raises(CorruptRecord):
        metadata.run(struct.pack(">i", 1) + bytes(5) + b"\xff" * 500_000)


def _is_hung_up_on(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.fixture
def leases(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], socket.socket]]:
    monkeypatch.setattr("heliograph.driving.lease_server._HELLO_SECONDS", 0.5)
    monkeypatch.setattr("heliograph.driving.lease_server._MAX_STRANGERS", 3)
    server = LeaseServer()
    opened: list[socket.socket] = []

    def connect() -> socket.socket:
        client = socket.create_connection(server.address, timeout=10)
        opened.append(client)
        return client

    yield connect
    for client in opened:
        client.close()
    server.close()


@pytest.mark.parametrize(
    "hello",
    [
        b"\xff\xfe\n",
        b"[" * 10_000 + b"\n",
        b"{}\n",
        b"[]\n",
        b"7\n",
        b'{"Hello":[]}\n',
        b'{"Hello":{"flow":{}}}\n',
        b'{"Hello":{"flow":[],"slice_index":0,"task":0,"secret":"\\u00e9"}}\n',
        b'{"Hello":{"flow":"f","slice_index":0,"task":0,"secret":7}}\n',
        b'{"Hello":{"flow":"f","slice_index":0,"task":0,"secret":"\\u00e9"}}\n',
        b'{"Hello":{"flow":"f","slice_index":0,"task":0,"secret":"a guess"}}\n',
        b'{"Ping":{"number":1}}\n',
        b'{"Fenced":{"reason":"nobody asked"}}\n',
        b"9" * 20_000 + b"\n",
        b"x" * 100_000,
    ],
)
def test_a_stranger_without_the_secret_is_hung_up_on(
    leases: Callable[[], socket.socket], hello: bytes
) -> None:
    client = leases()
    client.sendall(hello)
    assert _is_hung_up_on(client)


def test_strangers_who_say_nothing_are_hung_up_on_and_are_few(
    leases: Callable[[], socket.socket],
) -> None:
    silent = [leases() for _ in range(3)]
    assert _is_hung_up_on(leases())  # at once: there are three already
    for client in silent:
        assert _is_hung_up_on(client)
    client = leases()
    client.sendall(b"{}\n")
    assert _is_hung_up_on(client)
