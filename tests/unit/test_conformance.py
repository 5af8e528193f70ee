import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "check_conformance.py"
OPEN_CASES = 1


@pytest.fixture(scope="module")
def checker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_conformance", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_case_of_mirrormaker_has_its_row_and_every_test_exists() -> None:
    command = [sys.executable, str(SCRIPT), "--allow-todo", str(OPEN_CASES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("conformance: 182 cases: ")


def test_a_row_that_is_missing_or_too_many_is_found(checker: ModuleType) -> None:
    rows, faults = checker.read_rows("| `A.x` | it | n/a: no |\n| `A.z` | it | todo: issue 4 |\n")
    assert faults == []
    assert checker.differences(["A.x", "A.y"], rows) == [
        "A.y: has no row.",
        "A.z: has a row more than docs/conformance-cases.txt has.",
    ]


@pytest.mark.parametrize(
    "line", ["| `A.x` | it |", "| `A.x` |  | n/a: x |", "| `A.x` | a | b | c |"]
)
def test_a_broken_row_is_found(checker: ModuleType, line: str) -> None:
    rows, faults = checker.read_rows(line)
    assert rows == []
    assert faults == ["docs/conformance.md:1: not a row of three filled cells."]


@pytest.mark.parametrize(
    ("ours", "fault"),
    [
        ("`tests/unit/test_gone.py::test_x`", "A.x: tests/unit/test_gone.py has no test test_x."),
        (
            "`tests/unit/test_model.py::test_gone`",
            "A.x: tests/unit/test_model.py has no test test_gone.",
        ),
        ("n/a: because", "A.x: say why, or which issue."),
        ("todo: later", "A.x: say why, or which issue."),
        ("somewhere", "A.x: names no test, no n/a: and no todo:."),
    ],
)
def test_an_answer_that_answers_nothing_is_found(
    checker: ModuleType, ours: str, fault: str
) -> None:
    assert checker.faults_of("A.x", ours) == [fault]
