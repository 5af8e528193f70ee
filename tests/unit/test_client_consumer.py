from typing import Any

import pytest

from heliograph.client import FailoverConsumer
from heliograph.errors import ConfigError

A, B = ("A", "127.0.0.1:1"), ("B", {"bootstrap.servers": "127.0.0.1:2"})
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


def make(topics: Any = "orders", **changes: Any) -> FailoverConsumer:
    return FailoverConsumer(topics, **{"group_id": "billing", "home": A, "other": B, **changes})


def test_a_consumer_is_at_home_and_connects_to_nothing_until_it_reads() -> None:
    consumer = make()
    assert (consumer.cluster, consumer.moves, consumer.assignment()) == ("A", [], set())
    consumer.commit()
    consumer.close()
    assert list(consumer) == []


def test_topics_have_a_name_at_home_wherever_it_is() -> None:
    consumer = make(["orders"], others=["orders"], start="B")
    assert consumer.home_topic("A.orders") == "orders"
    assert consumer.home_topic("orders") == "B.orders"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"other": A}, "both called A"),
        ({"topics": []}, "no topics"),
        ({"start": "C"}, "neither A nor B"),
        ({"others": ["orders"], "naming": IDENTITY}, "same topic on A"),
        ({"home": ("A", "nowhere")}, "host:port"),
        ({"untranslated": "reset"}, "Give auto_offset_reset too"),
        ({"untranslated": "earliest", "auto_offset_reset": "latest"}, "refuse or reset"),
    ],
)
def test_what_cannot_work_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make(**changes)


def test_a_cluster_that_it_does_not_have_is_no_place_to_go() -> None:
    with pytest.raises(ConfigError, match="C is neither A nor B"):
        make().move_to("C")
