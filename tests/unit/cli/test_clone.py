import sys
from pathlib import Path

import pytest

from heliograph.cli.clone import NeedsClone, import_from_clone


@pytest.fixture(autouse=True)
def same_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_a_command_of_the_clone_is_found_beside_src(tmp_path: Path) -> None:
    folder = tmp_path / "only_in_this_clone"
    folder.mkdir()
    (folder / "command.py").write_text("ANSWER = 42\n")
    assert import_from_clone("bench", "only_in_this_clone.command", tmp_path).ANSWER == 42


def test_a_wheel_says_that_a_clone_is_needed(tmp_path: Path) -> None:
    with pytest.raises(NeedsClone, match="in a clone of heliograph") as told:
        import_from_clone("bench", "bench.command", tmp_path)
    assert told.value.exit_code == 2


def test_what_only_developers_install_is_named(tmp_path: Path) -> None:
    (tmp_path / "needs_more.py").write_text("import no_such_library\n")
    with pytest.raises(NeedsClone, match="bench: no_such_library is not here"):
        import_from_clone("bench", "needs_more", tmp_path)
