from heliograph.failover.group_offset_sync import GroupOutcome, Result, client_properties
from heliograph.model import TopicPartition


def test_a_file_may_write_javas_constants_for_keys() -> None:
    written = {"BOOTSTRAP_SERVERS_CONFIG": "b:1", "SSL_KEY_PASSWORD_CONFIG": "p", "GROUP": "x"}
    found = client_properties(written)
    assert found["bootstrap.servers"] == "b:1"
    assert found["ssl.key.password"] == "p"


def test_a_key_in_kafkas_own_spelling_counts_before_javas_constant() -> None:
    written = {"bootstrap.servers": "b:1", "BOOTSTRAP_SERVERS_CONFIG": "c:2"}
    assert client_properties(written)["bootstrap.servers"] == "b:1"


def test_what_was_done_is_told_in_a_line() -> None:
    moved = {TopicPartition("t", index): 10 * index for index in range(7)}
    told = str(GroupOutcome("g", Result.MOVED, moved))
    assert told == (
        "group g moved on 7 partitions: t-0 to 0, t-1 to 10, t-2 to 20, t-3 to 30, t-4 to 40 and 2 more"
    )
    left = GroupOutcome("g", Result.LEFT_ALONE, why="it is in use on the target (state Stable)")
    assert str(left) == "group g is left alone, because it is in use on the target (state Stable)"
    assert not left.is_good
    assert GroupOutcome("g", Result.IN_STEP).is_good
