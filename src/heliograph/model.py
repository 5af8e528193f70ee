"""Values shared by all packages. Frozen, slotted, picklable; no behaviour beyond their text form.

Offsets: `upstream` is an offset in the source topic, `downstream` one in the remote topic. A position
always names the *next* offset, never the last one; a "last" offset on the wire is converted there.
"""

from dataclasses import dataclass, field
from enum import Enum

UNKNOWN = -1  # the length of a run that only says: the place of earlier records is unknown
NOWHERE = -1  # the downstream offset of a partition whose records go to many remote partitions


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    topic: str
    index: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"


@dataclass(frozen=True, slots=True, order=True)
class Flow:
    """A direction of replication, written A->B as in mm2.properties."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


@dataclass(frozen=True, slots=True)
class Position:
    """Everything before `upstream` in the source is before `downstream` in the remote partition."""

    upstream: int
    downstream: int


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """How a broker identifies a producer; a later epoch of the same id fences an earlier one.

    A `transactional` producer writes only in transactions.
    """

    producer_id: int
    epoch: int
    transactional: bool = False


@dataclass(frozen=True, slots=True)
class Tls:
    """Certificates of one client; PEM text or file paths, as `ssl.*` gave them.

    `cipher_suites` holds Java's names; empty means the defaults.
    """

    truststore_location: str | None = None
    truststore_type: str = "JKS"
    truststore_password: str | None = field(default=None, repr=False)
    truststore_certificates: str | None = field(default=None, repr=False)
    keystore_location: str | None = None
    keystore_type: str = "JKS"
    keystore_password: str | None = field(default=None, repr=False)
    keystore_key: str | None = field(default=None, repr=False)
    keystore_certificate_chain: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sasl:
    """A login. `options` are those of the JAAS line (username, password and so on), then `sasl.*`.

    `tls` is how to reach the token endpoint, if the JAAS line says so.
    """

    mechanism: str
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    tls: Tls | None = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How to reach one cluster as one client: all that a worker process needs, with no live objects."""

    cluster: str
    bootstrap: tuple[tuple[str, int], ...]
    client_id: str = "heliograph"
    tls: Tls | None = None
    sasl: Sasl | None = None

    def __str__(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.bootstrap)


class StopKind(Enum):
    """Why copying of a partition stopped."""

    OUT_OF_RANGE = "out-of-range"
    LOST_TOPIC = "lost-topic"
    LOST_REMOTE = "lost-remote"
    REFUSED = "refused"
    REFUSED_FOR_GOOD = "refused-for-good"
    TOO_LARGE = "too-large"
    CORRUPT = "corrupt"
    LOSS = "loss"
    MADE_ANEW = "made-anew"
    UNTRACKED = "untracked"
    TRUNCATED = "target-truncated"

    @property
    def may_pass(self) -> bool:
        """Whether a retry may help without a person's action."""
        return self in _MAY_PASS

    @property
    def is_loss(self) -> bool:
        """Whether records are missing somewhere: an alarm."""
        return self in _LOSSES

    @property
    def keeps_saved_position(self) -> bool:
        """Whether the position saved before the stop stays the one to start from."""
        return self in (StopKind.MADE_ANEW, StopKind.UNTRACKED)


_MAY_PASS = frozenset(
    {
        StopKind.REFUSED,
        StopKind.TOO_LARGE,
        StopKind.CORRUPT,
        StopKind.LOST_TOPIC,
        StopKind.LOST_REMOTE,
    }
)
_LOSSES = frozenset({StopKind.LOSS, StopKind.MADE_ANEW, StopKind.UNTRACKED, StopKind.TRUNCATED})
