from heliograph.driving.tally import Tally
from heliograph.model import TopicPartition

ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


def test_records_and_bytes_are_counted_by_topic() -> None:
    tally = Tally()
    for topic in ("t", "u", "t"):
        tally.add(topic, 2, 30)
    assert tally.records == {"t": 4, "u": 2}
    assert tally.bytes == {"t": 60, "u": 30}


def test_a_loss_that_is_found_again_is_counted_once() -> None:
    tally = Tally()
    for partition in (ONE, OTHER, ONE, OTHER):
        tally.alarm(partition, "made-anew", "an id")
    assert tally.losses == {"made-anew": 2}


def test_another_loss_of_a_partition_counts_again() -> None:
    tally = Tally()
    tally.alarm(ONE, "loss", 5)
    tally.alarm(ONE, "loss", 9)
    tally.alarm(ONE, "target-truncated", 9)
    assert tally.losses == {"loss": 2, "target-truncated": 1}
