"""Every parser of bytes from outside, as one function of bytes each, with valid examples to spoil.

A target returns or raises what it owns up to; anything else is a bug. It also does with what was read
what its users do first: encodes it again, unpacks it, shows it.
"""

import re
import struct
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from crc32c import crc32c
from kafka.protocol.admin import DescribeConfigsRequest, DescribeGroupsRequest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest, OffsetFetchRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
from kafka.protocol.sasl import SaslAuthenticateRequest

from heliograph.config.access import Password, hash_password, make_token, parse_entries
from heliograph.config.fields import NotAllowed
from heliograph.config.jaas import parse_jaas
from heliograph.config.properties import parse_json, parse_properties, properties_of
from heliograph.config.providers import resolve
from heliograph.connect.herder import RestError
from heliograph.copying.placing import key_of
from heliograph.errors import ConfigError, CorruptRecord
from heliograph.kafka import fetch
from heliograph.kafka.scan import deliverable
from heliograph.model import (
    Endpoint,
    Position,
    ProducerIdentity,
    Sasl,
    StopKind,
    Tls,
    TopicPartition,
)
from heliograph.net.codecs import decode_answer
from heliograph.net.jks import Unreadable, read_jks
from heliograph.web.bodies import config_in, parse
from heliograph.wire import (
    connect_protocol,
    connect_records,
    connect_state,
    group_description,
    hold_records,
    lease_messages,
    mirror_records,
    run_records,
    share_records,
)
from heliograph.wire.assignments import decode_assignment
from heliograph.wire.compact import read_uvarint
from heliograph.wire.compression import compress, decompress
from heliograph.wire.fetch_response import Section
from heliograph.wire.primitives import decode_string, decode_varint, encode_string, encode_varint
from heliograph.wire.produce_messages import decode_answers as decode_produced
from heliograph.wire.record_batch import HEADER_SIZE, build_header
from heliograph.wire.records import RawRecord, RecordsBuilder, decode_body, encode_body
from heliograph.wire.unpack import unpack

LIMIT = 1 << 20
"""What one example may unfold to here."""

Errors = tuple[type[Exception], ...]
_CORRUPT: Errors = (CorruptRecord,)
_I32 = struct.Struct(">i")


@dataclass(frozen=True)
class Parser:
    """One target. `most` is how much memory it may take for each byte it gets."""

    name: str
    run: Callable[[bytes], object]
    seeds: Sequence[bytes]
    errors: Errors = _CORRUPT
    most: int = 100


def batch(codec: int = 0, count: int = 3, attributes: int = 0) -> bytes:
    """Return a batch as a producer would send it."""
    builder = RecordsBuilder()
    for index in range(count):
        body = encode_body(b"k%d" % index, b"value " * index, [(b"h", b"x"), (b"n", None)])
        builder.add(1_700_000_000_000 + index, 0, body)
    payload = compress(codec, builder.finish())
    header = build_header(
        payload,
        attributes=codec | attributes,
        count=count,
        base_timestamp=builder.base_timestamp,
        max_timestamp=builder.max_timestamp,
        identity=ProducerIdentity(7, 1),
        sequence=0,
    )
    return header + payload


def message(offset: int, magic: int, attributes: int, value: bytes | None) -> bytes:
    """Return a message of a format before v2."""
    body = bytes([magic, attributes]) + (struct.pack(">q", 5) if magic else b"") + _I32.pack(-1)
    body += _I32.pack(-1) if value is None else _I32.pack(len(value)) + value
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def wrapper(codec: int, magic: int, inner: bytes, offset: int = 1) -> bytes:
    return message(offset, magic, codec, compress(codec, inner))


def seal(data: bytes) -> bytes:
    """Return a spoilt batch whose checksum and length are right again, so that what is behind is read."""
    if len(data) <= HEADER_SIZE:
        return data
    spoilt = bytearray(data)
    spoilt[8:12] = _I32.pack(len(data) - 12)
    if spoilt[16] >= 2:
        spoilt[16] = 2
        spoilt[17:21] = struct.pack(">I", crc32c(bytes(spoilt[21:])))
    else:
        spoilt[12:16] = struct.pack(">I", zlib.crc32(bytes(spoilt[16:])))
    return bytes(spoilt)


def _unpack(data: bytes) -> None:
    for record in unpack(memoryview(data), LIMIT):
        struct.pack(">qq", record.offset, record.timestamp)
        _tolerate(decode_body, record.body)
        _tolerate(key_of, record.body)


def _tolerate(parser: Callable[[bytes], object], data: bytes) -> None:
    with suppress(CorruptRecord):
        parser(data)


def _walk_section(data: bytes) -> None:
    section = Section(0, 0, 0, 0, 0, ((7, 0),), 0, len(data))
    batches, position = deliverable(memoryview(data), section, committed_only=True)
    assert position is None or 0 < position < 1 << 63
    for found in batches:
        _tolerate(_unpack, bytes(found))


def _halves(run: Callable[[bytes, bytes], object]) -> Callable[[bytes], object]:
    """Give a parser of a key and a value one string of bytes: the key's length, key, value."""

    def both(data: bytes) -> object:
        split = 1 + (data[0] if data else 0)
        return run(data[1:split], data[split:])

    return both


def _joined(key: bytes, value: bytes | None) -> bytes:
    return bytes([len(key)]) + key + (value or b"")


def _hold(key: bytes, value: bytes) -> None:
    hold = hold_records.decode_hold(key, value)
    assert hold.since
    assert hold_records.decode_hold(*hold_records.encode_hold(hold)) == hold


def _config_row(key: bytes, value: bytes) -> None:
    row = connect_state.decode_config_row(key, value)
    if row is not None:
        connect_state.encode_config_row(row)


def _status_row(key: bytes, value: bytes) -> None:
    row = connect_state.decode_status_row(key, value)
    if row is not None:
        connect_state.encode_status_row(row)


def _source_offset(key: bytes, value: bytes) -> None:
    connect_records.decode_source_key(key)
    offset = connect_records.decode_source_offset(value)
    if offset is not None:
        connect_records.encode_source_offset(offset)


def _told(data: bytes) -> None:
    share_records.encode_told(share_records.decode_told(data))


def _given(data: bytes) -> None:
    share_records.encode_given(share_records.decode_given(data))


def _order(data: bytes) -> None:
    lease_messages.encode_message(lease_messages.decode_order(data))


def _note(data: bytes) -> None:
    lease_messages.encode_message(lease_messages.decode_note(data))


def _fetched(version: int) -> Callable[[bytes], object]:
    fetcher = fetch.Fetcher(None, fetch.FetchLimits())  # type: ignore[arg-type]  # it asks nobody
    subject = fetch.Subject(0, TopicPartition("t", 0), UUID(int=1), 0)
    fetcher.add([subject])

    def run(data: bytes) -> object:
        session = fetch.Session(1, None, version, subjects={0: subject})  # type: ignore[arg-type]
        return fetcher._decode(session, memoryview(data))

    return run


def _fetch_response(version: int) -> bytes:
    topic = UUID(int=1).bytes if version >= 13 else b"\x02t"
    status = struct.pack(">ihqqq", 0, 0, 9, 9, 0) + b"\x02" + struct.pack(">qqb", 7, 0, 0)
    records = batch()
    partition = status + _I32.pack(-1) + _uvarint(len(records) + 1) + records + b"\0"
    head = _I32.pack(1) + b"\0" + struct.pack(">ihi", 0, 0, 5)
    return head + b"\x02" + topic + b"\x02" + partition + b"\0\0"


def _uvarint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def _answer(request: Any, version: int) -> Callable[[bytes], object]:
    request.API_VERSION = version
    request.with_header(correlation_id=1, client_id="fuzz")

    def run(data: bytes) -> object:
        return decode_answer(request, version, memoryview(data), "a broker")

    return run


def _metadata_seed() -> bytes:
    broker = _I32.pack(1) + b"\x02h" + _I32.pack(9092) + b"\0" + b"\0"
    partition = struct.pack(">hiii", 0, 0, 1, 5) + (b"\x02" + _I32.pack(1)) * 2 + b"\x01" + b"\0"
    topic = b"\0\0" + b"\x02t" + UUID(int=1).bytes + b"\0" + b"\x02" + partition + _I32.pack(0)
    cluster = b"\x02" + broker + b"\x03id" + _I32.pack(1)
    return _I32.pack(1) + b"\0" + _I32.pack(0) + cluster + b"\x02" + topic + b"\0" + b"\0"


def _resolve(data: bytes) -> object:
    worker = {
        "config.providers": "file,env,dir",
        **{
            f"config.providers.{name}.class": f"org.apache.kafka.common.config.provider.{kind}"
            for name, kind in (
                ("file", "FileConfigProvider"),
                ("env", "EnvVarConfigProvider"),
                ("dir", "DirectoryConfigProvider"),
            )
        },
        "config.providers.file.param.allowed.paths": "/nowhere",
        "config.providers.dir.param.allowed.paths": "/nowhere",
    }
    text = data.decode(errors="replace")
    return resolve(properties_of({"key": text}, "a connector"), {"HOME": "h"}, worker)


def _access(data: bytes) -> None:
    for entry in parse_entries(data.decode(errors="replace"), "f"):
        proof = entry.proof
        if not isinstance(proof, Password) or proof.log_cost * proof.block * proof.lanes < 64:
            proof.fits("guess")


def _jaas(data: bytes) -> object:
    return parse_jaas(data.decode(errors="replace"))


def _body(data: bytes) -> object:
    return config_in(parse(data), "it")


_PARTITION = TopicPartition("t-é", 3)
_SYNC = mirror_records.encode_offset_sync(mirror_records.OffsetSync(_PARTITION, 5, 6))
_CHECKPOINT = mirror_records.encode_checkpoint(mirror_records.Checkpoint("g", _PARTITION, 5, 6))
_HEARTBEAT = mirror_records.encode_heartbeat(mirror_records.Heartbeat("A", "B", 7))
_HOLD = hold_records.encode_hold(
    hold_records.Hold(
        "A->B", 1, groups=frozenset("g"), ranges={_PARTITION: hold_records.Range(1, 2, 3, 4)}
    )
)
_RUNS = run_records.Segment((run_records.Run(5, 7, 2), run_records.Run(9, 9, 1 << 40)))
_MEMBERS = (
    b"\0\0\0\0\x02\0\0\x01\x02g\x02S\0\0\0\1\0\0\0\1\x02a\x02\x02m\0\0\0\0\0\1\x02c\x02h\x02\x02t\0"
    b"\x02" + bytes(16) + b"\x02t\x02\0\0\0\1\0\0\x01\0\0\0\0\0\0\0"
)
_TASKS = bytes(4) + encode_string("w") + encode_string("u") + bytes(8) + _I32.pack(1)
_TASKS += encode_string("c") + _I32.pack(2) + _I32.pack(-1) + _I32.pack(0)
_ASSIGNED = b"\0\1" + _I32.pack(1) + encode_string("t") + _I32.pack(2) + bytes(8) + _I32.pack(-1)
_ENTRIES = f"# who\nview:ann:{hash_password('password')}\noperate:bot:{make_token()[1]}\n".encode()
_LOW_COST = re.sub(rb"scrypt\$14\$8\$1", b"scrypt$2$1$4", _ENTRIES)
_LOGIN = b'org.x.PlainLoginModule required username="a\\"b" password=\'c\\101\' /* ; */ ok=1;'
_V2 = [batch(codec) for codec in range(5)] + [batch(0, 1), batch(4, 3, 0x08), batch(0, 2, 0x10)]
_OLD = [message(0, magic, 0, b"plain") for magic in (0, 1)]
_OLD += [wrapper(c, 1, message(0, 1, 0, b"a") + message(1, 1, 0, None)) for c in (1, 2, 3)]
_PRODUCED = _I32.pack(1) + _I32.pack(1) + encode_string("t") + _I32.pack(1)
_PRODUCED += struct.pack(">ihqqq", 0, 0, 5, -1, 0) + _I32.pack(1) + _I32.pack(0)
_PRODUCED += encode_string("bad") + encode_string("words") + _I32.pack(0)
_JKS = b"\xfe\xed\xfe\xed" + struct.pack(">ii", 2, 1) + _I32.pack(2) + b"\0\1a" + bytes(8)
_JKS += b"\0\5X.509" + _I32.pack(3) + b"der" + bytes(20)

_HERE = Endpoint(
    "A",
    (("h", 9092),),
    tls=Tls(truststore_location="t", keystore_key="k", key_password="p"),
    sasl=Sasl("PLAIN", (("username", "u"),), Tls()),
)
_LEDGER = lease_messages.Ledger("id", "offsets", 25, "runs", "c", "A", 1.5)
_SHARE = lease_messages.Share(
    slot=1,
    source=_PARTITION,
    topic_id="id",
    remote=_PARTITION,
    remote_id="another",
    position=Position(5, 6),
    identity=ProducerIdentity(7, 1),
    sequence=9,
    resume=True,
    max_message_bytes=1 << 20,
)
_LANE = lease_messages.LaneShare(_PARTITION, ProducerIdentity(7, 1), 3, 1 << 20)
_ORDERS: list[lease_messages.Order] = [
    lease_messages.Welcome(
        "A->B", _HERE, _HERE, lease_messages.Limits(1, 2, 3, 4, read_committed=True), _LEDGER
    ),
    lease_messages.Take((_SHARE,), (_LANE,)),
    lease_messages.Leave((1, 2)),
    lease_messages.Limit(1, 1 << 20),
    lease_messages.Alive(3, 20.0),
    lease_messages.End(),
]
_TAKEN = lease_messages.Taken(1.5, 1.0, 2.0, 4.5, 3)
_NOTES: list[lease_messages.Note] = [
    lease_messages.Hello("A->B", 1, 64, "5e"),
    lease_messages.Report(
        (lease_messages.SlotRead(1, 5, 9, 9, 3, _TAKEN),),
        (lease_messages.SlotWritten(1, 5, 6, 9, 3, 30, ((2, 3, 3),), 7, _TAKEN),),
        {"pass": 3},
        (1, 2),
        {1: "a broker is away"},
    ),
    lease_messages.Left((1,), (("t", 0, 9),), behind=True),
    lease_messages.Stopped(1, 5, StopKind.TOO_LARGE, "it is"),
    lease_messages.Foreign(1, "somebody"),
    lease_messages.Fenced("by another"),
    lease_messages.Ping(4),
]

_RAW = RawRecord(0, 0, 0, encode_body(b"k", b"v", [(b"h", b"v"), (b"i", None)]))

PARSERS = [
    Parser("string", lambda data: decode_string(data, 0), [encode_string("text")]),
    Parser("varint32", lambda data: decode_varint(data, 0, bits=32), [encode_varint(-70000)]),
    Parser("varint64", lambda data: decode_varint(data, 0, bits=64), [encode_varint(1 << 62)]),
    Parser(
        "uvarint",
        lambda data: read_uvarint(memoryview(data), 0),
        [_uvarint(1 << 30)],
        (IndexError,),
    ),
    Parser("fetched records", _walk_section, [b"".join(_V2), b"".join(_OLD), *_V2], most=400),
    Parser("batch", _unpack, _V2 + _OLD, most=400),
    Parser("sealed batch", lambda data: _unpack(seal(data)), _V2 + _OLD, most=40_000),
    Parser("body", decode_body, [_RAW.body], most=200),
    Parser("key", key_of, [_RAW.body]),
    *(
        Parser(
            f"codec {codec}",
            lambda data, codec=codec: decompress(codec, data, LIMIT),  # type: ignore[misc]
            [compress(codec, b"some text " * 9), compress(codec, b"")],
            most=40_000,
        )
        for codec in range(1, 5)
    ),
    Parser("offset sync", _halves(mirror_records.decode_offset_sync), [_joined(*_SYNC)]),
    Parser("checkpoint", _halves(mirror_records.decode_checkpoint), [_joined(*_CHECKPOINT)]),
    Parser("heartbeat", _halves(mirror_records.decode_heartbeat), [_joined(*_HEARTBEAT)]),
    Parser(
        "source offset",
        _halves(_source_offset),
        [
            _joined(
                connect_records.encode_source_key("C", "A", "t", 0),
                b'{"offset":41,"downstream":57,"topicId":"6f1c","remoteTopicId":"\\u00e9"}',
            )
        ],
    ),
    Parser(
        "config row",
        _halves(_config_row),
        [
            _joined(b"connector-a", b'{"properties":{"k":"v","n":null}}'),
            _joined(b"task-a-b-0", b'{"properties":{}}'),
            _joined(b"commit-a", b'{"tasks":3}'),
            _joined(b"target-state-a", b'{"state":"PAUSED","state.v2":"STOPPED"}'),
            _joined(b"restart-connector-a", b'{"include-tasks":true,"only-failed":false}'),
        ],
    ),
    Parser(
        "status row",
        _halves(_status_row),
        [
            _joined(b"status-connector-a", b'{"state":"RUNNING","worker_id":"h","generation":4}'),
            _joined(
                b"status-task-a-0", b'{"state":"X","worker_id":"h","generation":4,"trace":"t"}'
            ),
            _joined(
                b"status-topic-t:connector-c",
                b'{"topic":{"name":"t","connector":"c","task":0,"discoverTimestamp":1}}',
            ),
        ],
    ),
    Parser("connect tasks", connect_protocol.decode_tasks, [_TASKS]),
    Parser(
        "run key",
        run_records.decode_segment_key,
        [run_records.encode_segment_key(_PARTITION, 5)],
    ),
    Parser(
        "run",
        lambda data: run_records.decode_segment(5, data),
        [run_records.encode_segment(_RUNS)],
    ),
    Parser("hold", _halves(_hold), [_joined(*_HOLD)]),
    Parser("told", _told, [share_records.encode_told(share_records.Told("u", frozenset("ab"), 4))]),
    Parser(
        "given",
        _given,
        [share_records.encode_given(share_records.Given("u", frozenset("a"), {"a": "u"}))],
    ),
    Parser("group", lambda data: group_description.decode_response(memoryview(data)), [_MEMBERS]),
    Parser("assignment", decode_assignment, [_ASSIGNED]),
    Parser("order", _order, [lease_messages.encode_message(order) for order in _ORDERS]),
    Parser("note", _note, [lease_messages.encode_message(note) for note in _NOTES]),
    Parser("fetch 12", _fetched(12), [_fetch_response(12)]),
    Parser("fetch 13", _fetched(13), [_fetch_response(13)]),
    Parser(
        "produced",
        lambda data: list(decode_produced(memoryview(data))),
        [_PRODUCED],
        (struct.error, UnicodeDecodeError),
    ),
    Parser("versions", _answer(ApiVersionsRequest(), 3), [_I32.pack(1) + b"\0\0\x02" + bytes(12)]),
    Parser("metadata", _answer(MetadataRequest(), 12), [_metadata_seed()], most=400),
    Parser(
        "old metadata", _answer(MetadataRequest(), 1), [_I32.pack(1) * 3 + b"\0\1h" + bytes(60)]
    ),
    Parser(
        "listed offsets",
        _answer(ListOffsetsRequest(), 7),
        [bytes(5) + b"\x02\x02t\x02" + bytes(40)],
    ),
    Parser("fetch by codec", _answer(FetchRequest(), 12), [_fetch_response(12)]),
    Parser("groups", _answer(DescribeGroupsRequest(), 5), [bytes(9) + b"\x02" + bytes(60)]),
    Parser("committed", _answer(OffsetFetchRequest(), 8), [bytes(9) + b"\x02\x02g" + bytes(60)]),
    Parser("configs", _answer(DescribeConfigsRequest(), 4), [bytes(9) + b"\x02" + bytes(60)]),
    Parser("login", _answer(SaslAuthenticateRequest(), 2), [bytes(7) + b"\x02\x05abcd" + bytes(9)]),
    Parser("jks", lambda data: read_jks(data, None, "p"), [_JKS], (Unreadable,)),
    Parser(
        "properties",
        lambda data: parse_properties(data, "f"),
        [b"a=b\n# c\nd\\ e: f\\\n  g\\u00e9\r\nh", b"a=\\ud83d\\ude00"],
        (ConfigError,),
        most=1000,
    ),
    Parser(
        "connector file",
        lambda data: parse_json(data, "f"),
        [b'{"name":"c","config":{"a":1,"b":true,"c":null,"d":"\\u00e9"}}', b'{"a":1.5e3}'],
        (ConfigError,),
        most=1000,
    ),
    Parser("jaas", _jaas, [_LOGIN], (NotAllowed,)),
    Parser(
        "providers",
        _resolve,
        [b"a${file:/nowhere/x:k}b${env:HOME}${dir:/nowhere:n}${x}${y:z", b"${env:HOME"],
        (ConfigError,),
        most=1000,
    ),
    Parser("access", _access, [_LOW_COST], (ConfigError,), most=4000),
    Parser("body of a request", _body, [b'{"a":1,"b":"c","d":true,"e":1.25}'], (RestError,)),
]
