"""Our decoder of brokers' answers against kafka-python's own, for every message and version that it knows."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from kafka.protocol.admin import CreateTopicsResponse, DescribeGroupsResponse
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)

from heliograph.errors import CorruptRecord
from heliograph.net.codecs import _decoder_of, decode_answer

NUMBERS = {"bool": True, "float64": 0.5, "uint16": 65535}


def responses() -> list[Any]:
    """Return the classes of all responses that kafka-python has loaded with those that we use."""
    assert CreateTopicsResponse
    assert DescribeGroupsResponse
    found, kinds = [ApiMessage], set()
    while found:
        for kind in found.pop().__subclasses__():
            found.append(kind)
            name = kind.__name__
            if name.endswith("Response") and kind._struct is not None:
                kinds.add(kind)
    return sorted(kinds, key=lambda kind: kind.__name__)


def cases() -> Iterator[tuple[Any, int, int]]:
    for kind in responses():
        for version in range(kind.min_version, kind.max_version + 1):
            for many in (0, 2):
                yield kind, version, many


def sample(field: Any, version: int, many: int) -> Any:
    """Return a value of a field; arrays have so many members."""
    if field.is_array():
        make = content if field.is_struct_array() else sample
        return [make(field.array_of, version, many) for _ in range(many)]
    if field.is_struct():
        return content(field, version, many)
    texts = {"string": "ä" * many, "bytes": b"\xff" * many, "uuid": UUID(int=many)}
    plain = {**texts, **NUMBERS, "records": texts["bytes"]}
    if field.name == "error_code":
        return 0  # an ApiVersions response has another form with an error
    is_bits = getattr(field._type, "fmt", "") == "I"
    return {1, 3} if is_bits else plain.get(field.type_str, 5)


def content(schema: Any, version: int, many: int) -> dict[str, Any]:
    fields = [*schema.untagged_fields(version), *schema.tagged_fields(version)._fields]
    return {field.name: sample(field, version, many) for field in fields}


@pytest.mark.parametrize(
    ("kind", "version", "many"),
    list(cases()),
    ids=lambda part: getattr(part, "__name__", str(part)),
)
def test_every_message_is_read_as_kafka_python_reads_it(kind: Any, version: int, many: int) -> None:
    flexible = kind.flexible_version_q(version)
    given = content(kind._struct, version, many)
    data = kind._struct.encode(given, version=version, compact=flexible, tagged=flexible)

    ours, end = _decoder_of(kind, version)(memoryview(data), 0)

    assert ours == kind.decode(data, version=version)
    assert end == len(data)


def test_versions_that_are_not_known_are_told_in_the_first_form() -> None:
    request = ApiVersionsRequest()
    request.with_header(correlation_id=1, client_id="t")
    told = {"error_code": 35, "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 2}]}
    data = ApiVersionsResponse._struct.encode(told, version=0, compact=False, tagged=False)

    answer = decode_answer(request, 3, memoryview(b"\0\0\0\1" + data), "a broker")

    assert (answer.error_code, answer.api_keys[0].max_version) == (35, 2)
    assert answer.header.correlation_id == 1


METADATA = MetadataRequest(topics=[])


def metadata(version: int, **other: Any) -> memoryview:
    """Return an answer about no topic, behind its header."""
    given = {**content(MetadataResponse._struct, version, 0), **other}
    data = MetadataResponse._struct.encode(given, version=version, compact=True, tagged=True)
    return memoryview(b"\0\0\0\1\0" + data)


def refused(frame: memoryview) -> str:
    METADATA.with_header(correlation_id=1, client_id="t")
    METADATA.API_VERSION = 12
    with pytest.raises(CorruptRecord) as caught:
        decode_answer(METADATA, 12, frame, "a broker")
    return str(caught.value)


def test_a_null_where_none_may_be_makes_no_sense() -> None:
    assert "brokers is null" in refused(metadata(12, brokers=None))


@pytest.mark.parametrize("cut", range(1, 12))
def test_an_answer_that_ends_early_makes_no_sense(cut: int) -> None:
    assert "makes no sense" in refused(metadata(12)[:-cut])


def test_an_array_longer_than_its_frame_is_not_begun() -> None:
    frame = bytearray(metadata(12))
    frame[9:10] = b"\xff\xff\xff\xff\x07"
    assert "in" in refused(memoryview(frame))


def test_the_kafka_python_of_an_application_stays_as_it_is() -> None:
    """Imports ours beside it, in a fresh process: no class of kafka-python has other functions than before."""
    script = (
        "import kafka, sys\n"
        "from kafka.protocol import api_message, data_container\n"
        "import kafka.protocol.schemas.fields.struct, kafka.protocol.schemas.fields.codecs\n"
        "def parts():\n"
        "    found = {}\n"
        "    for name, module in list(sys.modules.items()):\n"
        "        if name.split('.')[0] == 'kafka':\n"
        "            for each in list(vars(module).values()):\n"
        "                if isinstance(each, type) and each.__module__.split('.')[0] == 'kafka':\n"
        "                    for key, value in vars(each).items():\n"
        "                        if callable(getattr(value, '__func__', value)):\n"
        "                            found[each, key] = value\n"
        "    return found\n"
        "before = parts()\n"
        "import heliograph.client, heliograph.kafka.cluster\n"
        "after = parts()\n"
        "print([key for key, value in before.items() if after.get(key) is not value])\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
