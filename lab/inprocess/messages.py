"""Requests in, responses out, by kafka-python's schemas and its own codecs; src writes these bytes itself.

Any, because kafka-python's messages carry no types.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    MetadataRequest,
)
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
)

from lab.inprocess.code import Code

_HEAD = struct.Struct(">hhi")


class Api(IntEnum):
    """The requests that the broker answers."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    FIND_COORDINATOR = 10
    API_VERSIONS = 18
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    END_TXN = 26


_REQUESTS: dict[Api, Any] = {
    Api.PRODUCE: ProduceRequest,
    Api.FETCH: FetchRequest,
    Api.LIST_OFFSETS: ListOffsetsRequest,
    Api.METADATA: MetadataRequest,
    Api.FIND_COORDINATOR: FindCoordinatorRequest,
    Api.API_VERSIONS: ApiVersionsRequest,
    Api.INIT_PRODUCER_ID: InitProducerIdRequest,
    Api.ADD_PARTITIONS_TO_TXN: AddPartitionsToTxnRequest,
    Api.END_TXN: EndTxnRequest,
}
# From the oldest version that Kafka 4 knows to the newest that is answered here.
VERSIONS = {
    Api.PRODUCE: (3, 8),
    Api.FETCH: (4, 13),
    Api.LIST_OFFSETS: (1, 7),
    Api.METADATA: (0, 12),
    Api.FIND_COORDINATOR: (0, 2),
    Api.API_VERSIONS: (0, 3),
    Api.INIT_PRODUCER_ID: (0, 4),
    Api.ADD_PARTITIONS_TO_TXN: (0, 3),
    Api.END_TXN: (0, 4),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: which broker it was sent to, and what it says."""

    node: int
    api: Api
    version: int
    correlation: int
    request: Any


class UnknownRequest(Exception):
    """A request that the broker does not know; Kafka closes the connection."""


def read_request(node: int, frame: bytes) -> Asked:
    key, version, correlation = _HEAD.unpack_from(frame)
    low, high = VERSIONS.get(key, (0, -1))
    if key == Api.API_VERSIONS and version > high:
        return Asked(node, Api.API_VERSIONS, version, correlation, None)
    if not low <= version <= high:
        raise UnknownRequest(f"api {key}, version {version}")
    api = Api(key)
    request = _REQUESTS[api].decode(frame, version=version, header=True)
    return Asked(node, api, version, correlation, request)


def write_response(asked: Asked, response: Any) -> bytes:
    """Return a response with its length."""
    # A client that asks in too new a version gets the answer in version 0.
    response.API_VERSION = min(asked.version, VERSIONS[asked.api][1]) if asked.request else 0
    response.with_header(correlation_id=asked.correlation)
    return bytes(response.encode(header=True, framed=True))


def list_versions(asked: Asked) -> Any:
    kind = ApiVersionsResponse.ApiVersion
    rows = [
        kind(api_key=int(api), min_version=low, max_version=high)
        for api, (low, high) in VERSIONS.items()
    ]
    error = Code.NONE if asked.request is not None else Code.UNSUPPORTED_VERSION
    return ApiVersionsResponse(error_code=int(error), api_keys=rows)
