from collections.abc import Mapping

from heliograph.control.connect import Report, RunState, TargetState
from heliograph.control.instances import Instance, Instances, Wanted
from heliograph.errors import ConfigError

CONFIG = (("topics", "t"),)


class Fake:
    """A connector that notes when it is started and stopped."""

    def __init__(self, number: int, events: list[str]) -> None:
        self._number = number
        self._events = events

    def start(self) -> None:
        self._events.append(f"start {self._number}")

    def stop(self) -> None:
        self._events.append(f"stop {self._number}")

    def report(self) -> Report:
        return Report(RunState.RUNNING)

    def topics(self) -> set[str]:
        return set()


class Makes:
    """Makes connectors, or fails while `broken`."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.broken = False
        self._made = 0

    def __call__(self, _name: str, _wanted: Wanted) -> Instance:
        if self.broken:
            raise ConfigError("no such file")
        self._made += 1
        return Fake(self._made, self.events)


def reconciled(makes: Makes, *steps: Mapping[str, Wanted]) -> Instances:
    instances = Instances(makes)
    for wanted in steps:
        instances.reconcile(wanted)
    return instances


def test_what_is_wanted_as_before_goes_on() -> None:
    makes = Makes()
    reconciled(makes, *[{"c": Wanted(CONFIG, TargetState.STARTED, 1)}] * 2)
    assert makes.events == ["start 1"]


def test_the_same_configuration_counted_anew_stops_and_starts_it() -> None:
    makes = Makes()
    reconciled(makes, *[{"c": Wanted(CONFIG, TargetState.STARTED, n)} for n in (1, 2)])
    assert makes.events == ["start 1", "stop 1", "start 2"]


def test_one_that_cannot_be_made_has_failed_until_it_is_counted_anew() -> None:
    makes = Makes()
    makes.broken = True
    instances = reconciled(makes, {"c": Wanted(CONFIG, TargetState.STARTED, 1)})
    makes.broken = False
    instances.reconcile({"c": Wanted(CONFIG, TargetState.STARTED, 1)})
    assert instances.report("c") == Report(RunState.FAILED, "no such file")
    instances.reconcile({"c": Wanted(CONFIG, TargetState.STARTED, 2)})
    assert instances.report("c").state is RunState.RUNNING
