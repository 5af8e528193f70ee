"""Which ACLs of the source apply to remote topics: a reader there is a reader here, a writer is not.

Only literal ACLs of topics are considered; those of groups, of the cluster and with prefixes are not
copied.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import IntEnum


class Operation(IntEnum):
    """Numbered as on the wire."""

    UNKNOWN = 0
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15

    @classmethod
    def _missing_(cls, _value: object) -> "Operation":
        return cls.UNKNOWN  # from a broker newer than this list


class Permission(IntEnum):
    """Numbered as on the wire."""

    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, slots=True)
class Acl:
    """What a principal may or may not do to the topic of exactly this name."""

    topic: str
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        who = f"{self.principal} from {self.host}"
        return f"{self.permission.name} {self.operation.name} on {self.topic} for {who}"


def downstream_acls(
    acls: Iterable[Acl], replicates: Callable[[str], bool], remote_name: Callable[[str], str]
) -> set[Acl]:
    """Return the ACLs that remote topics should have; only the mirror may write there."""
    return {
        replace(_without_writing(acl), topic=remote_name(acl.topic))
        for acl in acls
        if not (acl.permission == Permission.ALLOW and acl.operation == Operation.WRITE)
        and replicates(acl.topic)
    }


def _without_writing(acl: Acl) -> Acl:
    if acl.permission == Permission.ALLOW and acl.operation == Operation.ALL:
        return replace(acl, operation=Operation.READ)
    return acl
