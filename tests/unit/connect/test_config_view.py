import pytest

from heliograph.connect.config_view import ConfigView
from heliograph.connect.herder import TargetState
from heliograph.wire.connect_state import (
    CommitRow,
    ConfigRow,
    ConnectorRow,
    RestartRow,
    TargetStateRow,
    TaskRow,
)


def view_of(*rows: ConfigRow) -> ConfigView:
    view = ConfigView()
    for row in rows:
        view.apply(row)
    return view


def test_tasks_count_from_their_commit_on() -> None:
    view = view_of(ConnectorRow("c", {"k": "v"}), TaskRow("c", 0, {"n": "0"}))
    assert view.tasks == {}
    view.apply(TaskRow("c", 1, {"n": "1"}))
    view.apply(CommitRow("c", 2))
    assert view.tasks == {"c": ({"n": "0"}, {"n": "1"})}


def test_new_tasks_without_a_commit_change_nothing() -> None:
    view = view_of(ConnectorRow("c", {}), TaskRow("c", 0, {"n": "0"}), CommitRow("c", 1))
    view.apply(TaskRow("c", 0, {"n": "new"}))
    assert view.tasks == {"c": ({"n": "0"},)}


def test_a_commit_of_more_tasks_than_were_written_leaves_none() -> None:
    view = view_of(ConnectorRow("c", {}), TaskRow("c", 1, {"n": "1"}), CommitRow("c", 2))
    assert view.tasks == {"c": ()}
    for row in (TaskRow("c", 0, {}), TaskRow("c", 1, {}), CommitRow("c", 2)):
        view.apply(row)
    assert len(view.tasks["c"]) == 2


def test_fewer_tasks_replace_more() -> None:
    rows: list[ConfigRow] = [
        TaskRow("c", 0, {"n": "0"}),
        TaskRow("c", 1, {"n": "1"}),
        CommitRow("c", 2),
    ]
    view = view_of(ConnectorRow("c", {}), *rows, TaskRow("c", 0, {"n": "only"}), CommitRow("c", 1))
    assert view.tasks["c"] == ({"n": "only"},)


def test_a_deleted_connector_takes_its_tasks_along() -> None:
    tasks: list[ConfigRow] = [TaskRow("c", 0, {}), CommitRow("c", 1)]
    gone: list[ConfigRow] = [ConnectorRow("c", None), TargetStateRow("c", None)]
    view = view_of(ConnectorRow("c", {}), TargetStateRow("c", "PAUSED"), *tasks, *gone)
    assert (view.connectors, view.tasks, view.target_states) == ({}, {}, {})
    view.apply(ConnectorRow("c", {"again": "yes"}))
    assert view.tasks == {}


def test_what_compaction_left_of_a_deleted_connector_is_not_taken_for_its_tasks() -> None:
    view = view_of(TaskRow("c", 0, {}), CommitRow("c", 1), ConnectorRow("c", {}))
    assert view.tasks == {}


def test_a_state_may_come_before_its_connector() -> None:
    view = view_of(TargetStateRow("c", "STOPPED"), ConnectorRow("c", {}))
    assert view.target_states == {"c": TargetState.STOPPED}


def test_a_state_that_is_not_known_changes_nothing() -> None:
    view = view_of(TargetStateRow("c", "PAUSED"))
    with pytest.raises(ValueError, match="DANCING"):
        view.apply(TargetStateRow("c", "DANCING"))
    assert view.target_states == {"c": TargetState.PAUSED}


def test_one_that_is_made_again_is_another_one_though_its_configuration_is_the_same() -> None:
    view = view_of(ConnectorRow("c", {"k": "v"}), ConnectorRow("c", {"k": "v"}))
    assert view.births["c"] == 1
    assert view.written == {"c"}
    for row in (ConnectorRow("c", None), ConnectorRow("c", {"k": "v"})):
        view.apply(row)
    assert view.births["c"] == 2


def test_clearing_leaves_nothing_to_run_or_restart() -> None:
    view = view_of(ConnectorRow("a", {}), ConnectorRow("b", {}), RestartRow("a", True, False))
    view.clear()
    assert (view.connectors, view.restarts) == ({}, [])
