from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest

from heliograph.connect.alter_offsets import (
    Json,
    check_checkpoint_offset,
    check_heartbeat_offset,
    check_source_offset,
)
from heliograph.errors import ConfigError

Check = Callable[[Json | None, Json | None], None]


@dataclass(frozen=True)
class Rule:
    check: Check
    partition: Mapping[str, object]

    def refuses(self, partition: Json | None, offset: Json | None) -> str:
        with pytest.raises(ConfigError) as caught:
            self.check(partition, offset)
        return str(caught.value)


SOURCE = Rule(check_source_offset, {"cluster": "A", "topic": "t", "partition": 0})
CHECKPOINT = Rule(check_checkpoint_offset, {"group": "g", "topic": "t", "partition": 0})
HEARTBEAT = Rule(check_heartbeat_offset, {"sourceClusterAlias": "A", "targetClusterAlias": "B"})
ZERO = {"offset": 0}

all_rules = pytest.mark.parametrize(
    "rule", [SOURCE, CHECKPOINT, HEARTBEAT], ids=["source", "checkpoint", "heartbeat"]
)
numbered_rules = pytest.mark.parametrize("rule", [SOURCE, CHECKPOINT], ids=["source", "checkpoint"])


@all_rules
def test_a_partition_of_another_kind_or_null_is_refused(rule: Rule) -> None:
    rule.refuses({"unused_partition_key": "unused"}, ZERO)
    assert rule.refuses(None, ZERO).startswith("partition null: only an offset of null")


@all_rules
def test_every_key_of_a_partition_is_needed(rule: Rule) -> None:
    for missing in rule.partition:
        rest = {key: value for key, value in rule.partition.items() if key != missing}
        assert missing in rule.refuses(rest, ZERO)


@all_rules
def test_names_in_a_partition_are_strings(rule: Rule) -> None:
    for key in rule.partition.keys() - {"partition"}:
        for value in (None, 1, ["x"]):
            assert f"{key} must be a string" in rule.refuses({**rule.partition, key: value}, ZERO)


@numbered_rules
@pytest.mark.parametrize("index", ["a string", "0", None, 0.0, -1, 2**31, True])
def test_a_partition_has_the_number_of_one(rule: Rule, index: object) -> None:
    assert "partition must be a whole number" in rule.refuses(
        {**rule.partition, "partition": index}, ZERO
    )


@numbered_rules
def test_many_partitions_are_taken_one_by_one(rule: Rule) -> None:
    rule.check(rule.partition, ZERO)
    rule.check({**rule.partition, "topic": "other", "partition": 2**31 - 1}, ZERO)


def test_many_flows_of_heartbeats_are_taken_one_by_one() -> None:
    HEARTBEAT.check(HEARTBEAT.partition, ZERO)
    HEARTBEAT.check({**HEARTBEAT.partition, "targetClusterAlias": "C"}, ZERO)


@all_rules
def test_an_offset_is_called_offset(rule: Rule) -> None:
    assert "offset is missing" in rule.refuses(rule.partition, {"unused_offset_key": 0})
    assert "offset is missing" in rule.refuses(rule.partition, {})


@all_rules
@pytest.mark.parametrize("offset", ["nope", "0", None, 0.0, 1.5, -1, 2**63, True])
def test_what_is_no_offset_is_refused(rule: Rule, offset: object) -> None:
    assert "offset must be " in rule.refuses(rule.partition, {"offset": offset})


@pytest.mark.parametrize("offset", [0, 10, 2**31, 2**63 - 1])
def test_a_source_offset_is_any_that_a_record_can_have(offset: int) -> None:
    SOURCE.check(SOURCE.partition, {"offset": offset})


@pytest.mark.parametrize("rule", [CHECKPOINT, HEARTBEAT], ids=["checkpoint", "heartbeat"])
def test_offsets_of_checkpoints_and_heartbeats_are_zero(rule: Rule) -> None:
    rule.check(rule.partition, ZERO)
    for offset in (1, 10, 2**40):
        assert "offset must be 0, not" in rule.refuses(rule.partition, {"offset": offset})


@all_rules
def test_more_keys_than_needed_do_no_harm(rule: Rule) -> None:
    rule.check({**rule.partition, "more": 1}, {"offset": 0, "more": 1})


@all_rules
@pytest.mark.parametrize("partition", [None, {}, {"unused": "x"}, {"partition": "nope"}])
def test_an_offset_of_null_is_taken_for_any_partition(rule: Rule, partition: Json | None) -> None:
    rule.check(partition, None)
    rule.check(rule.partition, None)
