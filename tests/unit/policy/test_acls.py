import pytest

from heliograph.policy.acls import Acl, Operation, Permission, downstream_acls


def acl(operation: Operation, permission: Permission, topic: str = "orders") -> Acl:
    return Acl(topic, "User:reader", "*", operation, permission)


def downstream(*acls: Acl) -> set[Acl]:
    return downstream_acls(acls, lambda topic: topic != "private", lambda topic: f"A.{topic}")


def test_a_writer_of_the_source_may_not_write_to_the_remote_topic() -> None:
    assert downstream(acl(Operation.WRITE, Permission.ALLOW)) == set()


def test_who_may_do_all_may_read_the_remote_topic() -> None:
    allowed = downstream(acl(Operation.ALL, Permission.ALLOW))

    assert allowed == {acl(Operation.READ, Permission.ALLOW, "A.orders")}


@pytest.mark.parametrize("operation", Operation)
def test_what_is_denied_is_denied_as_it_was(operation: Operation) -> None:
    denied = downstream(acl(operation, Permission.DENY))

    assert denied == {acl(operation, Permission.DENY, "A.orders")}


@pytest.mark.parametrize("operation", sorted(set(Operation) - {Operation.ALL, Operation.WRITE}))
def test_any_other_permission_is_copied_with_the_topic_renamed(operation: Operation) -> None:
    allowed = downstream(acl(operation, Permission.ALLOW))

    assert allowed == {acl(operation, Permission.ALLOW, "A.orders")}


def test_principal_and_host_are_kept() -> None:
    given = Acl("orders", "User:CN=ops", "10.0.0.1", Operation.DESCRIBE, Permission.ALLOW)

    (copied,) = downstream(given)

    assert (copied.principal, copied.host) == ("User:CN=ops", "10.0.0.1")


def test_acls_of_topics_that_are_not_copied_stay_where_they_are() -> None:
    private = [
        acl(Operation.READ, Permission.ALLOW, "private"),
        acl(Operation.ALL, Permission.DENY, "private"),
    ]

    assert downstream(*private) == set()


def test_all_and_read_of_one_principal_become_one() -> None:
    both = downstream(acl(Operation.ALL, Permission.ALLOW), acl(Operation.READ, Permission.ALLOW))

    assert both == {acl(Operation.READ, Permission.ALLOW, "A.orders")}


def test_an_operation_of_a_newer_broker_is_unknown() -> None:
    assert Operation(99) is Operation.UNKNOWN


def test_an_acl_is_told_in_words() -> None:
    told = str(acl(Operation.READ, Permission.ALLOW))

    assert told == "ALLOW READ on orders for User:reader from *"
