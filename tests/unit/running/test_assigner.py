"""What is said of partitions that cannot begin yet."""

import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from heliograph.driving.tally import Tally
from heliograph.model import TopicPartition
from heliograph.running.assigner import Assigner

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_why_a_partition_waits_is_logged_once_and_again_when_the_reason_is_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    assigner = Assigner(cast("Any", SimpleNamespace(flow="A->B")), cast("Any", None), Tally())

    def refresh(unread: dict[TopicPartition, str], unsaved: dict[TopicPartition, str]) -> None:
        assigner._note_unknown(unread)
        assigner._settle_unknown({**unread, **unsaved})

    for _ in range(3):
        refresh({T0: "no leader"}, {T1: "its position cannot be saved"})
    assert len(caplog.messages) == 2
    assert assigner.unknown == {T0: "no leader", T1: "its position cannot be saved"}

    refresh({}, {T1: "another reason"})
    refresh({T0: "no leader"}, {})

    assert [message.split(" waits: ")[1] for message in caplog.messages[2:]] == [
        "another reason",
        "no leader",
    ]
