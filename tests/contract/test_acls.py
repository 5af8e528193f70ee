"""Who may read a topic may read its copy; nobody but the mirror is let write to it."""

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from lab.clusters import LiveCluster
from tests.contract.systems import Flow

ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
Entry = tuple[str, AclOperation, AclPermissionType]


def test_acls_are_copied_and_nobody_gets_to_write(there: Flow) -> None:
    topic = there.create()
    private = there.create(prefix="private.")
    allow(there.source, private, "User:secret", AclOperation.READ)
    allow(there.source, topic, "User:prefixed", AclOperation.READ, pattern=PREFIXED)
    allow(there.source, topic, "User:writer", AclOperation.WRITE)
    allow(there.source, topic, "User:all", AclOperation.ALL)
    allow(there.source, topic, "User:describer", AclOperation.DESCRIBE)
    allow(there.source, topic, "User:denied", AclOperation.WRITE, DENY)
    allow(there.source, topic, "User:denied-all", AclOperation.ALL, DENY)
    allow(there.source, topic, "User:reader", AclOperation.READ)

    expected: set[Entry] = {
        ("User:reader", AclOperation.READ, ALLOW),
        ("User:all", AclOperation.READ, ALLOW),
        ("User:describer", AclOperation.DESCRIBE, ALLOW),
        ("User:denied", AclOperation.WRITE, DENY),
        ("User:denied-all", AclOperation.ALL, DENY),
    }
    remote = there.remote(topic)
    there.system.until(lambda: expected <= acls(there.target, remote))
    pass_a_sync(there)
    assert acls(there.target, remote) == expected
    assert not acls(there.target, there.remote(private))


def test_an_acl_that_is_removed_stays_on_the_target(there: Flow) -> None:
    topic = there.create()
    allow(there.source, topic, "User:gone", AclOperation.READ)
    entry = {("User:gone", AclOperation.READ, ALLOW)}
    there.system.until(lambda: acls(there.target, there.remote(topic)) == entry)

    removed = bindings(topic, ResourcePatternType.LITERAL)
    there.source.admin.delete_acls([removed])[removed].result(timeout=30)
    pass_a_sync(there)

    assert acls(there.target, there.remote(topic)) == entry


def allow(
    cluster: LiveCluster,
    topic: str,
    principal: str,
    operation: AclOperation,
    permission: AclPermissionType = ALLOW,
    *,
    pattern: ResourcePatternType = LITERAL,
) -> None:
    binding = AclBinding(ResourceType.TOPIC, topic, pattern, principal, "*", operation, permission)
    cluster.admin.create_acls([binding])[binding].result(timeout=30)


def bindings(topic: str, pattern: ResourcePatternType) -> AclBindingFilter:
    return AclBindingFilter(
        ResourceType.TOPIC,
        topic,
        pattern,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )


def acls(cluster: LiveCluster, topic: str) -> set[Entry]:
    """Return what is said of a topic by name, whatever the pattern is."""
    found = cluster.admin.describe_acls(bindings(topic, ResourcePatternType.ANY)).result(timeout=30)
    return {(acl.principal, acl.operation, acl.permission_type) for acl in found}


def pass_a_sync(flow: Flow) -> None:
    """Return when the ACLs that existed at the call were looked at."""
    topic = flow.create()
    allow(flow.source, topic, "User:passed", AclOperation.READ)
    flow.system.until(lambda: acls(flow.target, flow.remote(topic)))
