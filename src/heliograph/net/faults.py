"""Broker error codes and socket errors, turned into our errors in this one place."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kafka import errors as foreign

from heliograph.errors import KafkaFault

OFFSET_OUT_OF_RANGE: Final = 1
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
COORDINATOR_LOAD_IN_PROGRESS: Final = 14
COORDINATOR_NOT_AVAILABLE: Final = 15
NOT_COORDINATOR: Final = 16
ILLEGAL_GENERATION: Final = 22
INCONSISTENT_GROUP_PROTOCOL: Final = 23
UNKNOWN_MEMBER_ID: Final = 25
REBALANCE_IN_PROGRESS: Final = 27
TOPIC_ALREADY_EXISTS: Final = 36
OUT_OF_ORDER_SEQUENCE: Final = 45
DUPLICATE_SEQUENCE: Final = 46
INVALID_PRODUCER_EPOCH: Final = 47
INVALID_TXN_STATE: Final = 48
INVALID_PRODUCER_ID_MAPPING: Final = 49
CONCURRENT_TRANSACTIONS: Final = 51
OPERATION_NOT_ATTEMPTED: Final = 55
TRANSACTION_ABORTABLE: Final = 120
PRODUCER_FENCED: Final = 90
MEMBER_ID_REQUIRED: Final = 79
GROUP_ID_NOT_FOUND: Final = 69
FETCH_SESSION_ID_NOT_FOUND: Final = 70
INVALID_FETCH_SESSION_EPOCH: Final = 71
FETCH_SESSION_TOPIC_ID_ERROR: Final = 106
UNKNOWN_TOPIC_ID: Final = 100
INCONSISTENT_TOPIC_ID: Final = 103

# The codes for records that a broker will never accept as they are.
REFUSED_FOR_GOOD: Final = frozenset(
    {
        10,  # MESSAGE_TOO_LARGE
        18,  # RECORD_LIST_TOO_LARGE
        32,  # INVALID_TIMESTAMP
        43,  # UNSUPPORTED_FOR_MESSAGE_FORMAT
        44,  # POLICY_VIOLATION
        76,  # UNSUPPORTED_COMPRESSION_TYPE
        87,  # INVALID_RECORD
    }
)
COORDINATOR_AWAY: Final = frozenset(
    {COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR}
)
FENCED: Final = frozenset({INVALID_PRODUCER_EPOCH, PRODUCER_FENCED})
LOST_TRANSACTION: Final = frozenset(
    {INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING, TRANSACTION_ABORTABLE}
)
LOST_SESSION: Final = frozenset(
    {FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR}
)
LOST_TOPIC: Final = frozenset({UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID})


def error_name(code: int) -> str:
    """Return Kafka's own name of an error code, as its documentation prints it."""
    return str(foreign.for_code(code).message)


def is_retriable(code: int) -> bool:
    """Whether the same request may succeed later, perhaps at another broker."""
    return bool(foreign.for_code(code).retriable)


def fault_for(doing: str, code: int) -> KafkaFault:
    return KafkaFault(doing, error_name(code), is_retriable(code))


@contextmanager
def network_faults(doing: str) -> Iterator[None]:
    """Turn a socket's error raised while `doing` something into a retriable KafkaFault."""
    try:
        yield
    except OSError as exc:
        reason = str(exc) or type(exc).__name__
        raise KafkaFault(doing, f"nothing ({reason})", retriable=True) from exc
