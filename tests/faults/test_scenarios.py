import pytest

from heliograph.errors import ConfigError
from lab.faults.scenarios import FAULTS, select_faults


def names(*patterns: str) -> list[str]:
    return [fault.name for fault in select_faults(patterns)]


def test_faults_have_names_of_their_own() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert len({fault.sentence for fault in FAULTS}) == len(FAULTS)


def test_faults_are_asked_for_by_name_with_or_without_their_side_or_by_pattern() -> None:
    assert names("cut-target") == ["cut-target"]
    assert names("cut") == ["cut-source", "cut-target"]
    assert names("kill-worker", "sleep-d*") == ["sleep-driver", "sleep-daemon", "kill-worker"]
    assert names() == ["kill-brokers-target", "cut-source", "kill-jvm"]
    with pytest.raises(ConfigError, match="chaos --list"):
        names("cut", "cute")


def test_a_fault_of_a_process_befalls_only_systems_that_have_it() -> None:
    able = {fault.name for fault in FAULTS if fault.can_befall("mm2")}
    assert {"kill-jvm", "sleep-jvm", "cut-source", "away-target"} <= able
    assert not able & {"kill-driver", "kill-worker", "second-driver", "disk-full", "clock-jumps"}
