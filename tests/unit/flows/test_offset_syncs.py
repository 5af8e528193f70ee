from pathlib import Path

import pytest

from heliograph.config.mirror import load_mirror
from heliograph.errors import ConfigError
from heliograph.flows.offset_syncs import offset_syncs_topic

ONE_FLOW = "clusters=A,B\nA.bootstrap.servers=h:1\nB.bootstrap.servers=h:2\nA->B.enabled=true\n"


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("", "mm2-offset-syncs.B.internal"),
        ("offset-syncs.topic.location=source", "mm2-offset-syncs.B.internal"),
        ("offset-syncs.topic.location=target", "mm2-offset-syncs.A.internal"),
        ("replication.policy.separator=_", "mm2-offset-syncs_B_internal"),
    ],
)
def test_offset_syncs_are_named_after_the_cluster_that_does_not_hold_them(
    tmp_path: Path, text: str, topic: str
) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(ONE_FLOW + text)
    assert offset_syncs_topic(load_mirror(file, {}).flows[0]) == topic


def test_offset_syncs_are_on_the_source_or_on_the_target(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(ONE_FLOW + "offset-syncs.topic.location=something")
    with pytest.raises(ConfigError, match="location=something: one of source, target"):
        load_mirror(file, {})
