"""Check docs/conformance.md: every case has a row, and every test that a row names exists."""  # noqa: INP001 - a script

import argparse
import ast
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "conformance.md"
CASES = ROOT / "docs" / "conformance-cases.txt"

_ROW = re.compile(r"\| `(?P<case>[^`]+)` \|(?P<pins>[^|]*)\|(?P<ours>[^|]*)\|\s*")
_NODE_ID = re.compile(r"`(tests/[^`:]+)::(\w+)(?:\[[^`]*\])?`")
_SHORTEST_REASON = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--allow-todo", type=int, default=0, metavar="N", help="how many may be open"
    )
    allowed: int = parser.parse_args().allow_todo
    cases = CASES.read_text().splitlines()
    rows, faults = read_rows(TABLE.read_text())
    faults += differences(cases, rows)
    answers = dict(rows)
    faults += [fault for case, ours in rows for fault in faults_of(case, ours)]
    open_cases = [case for case, ours in answers.items() if ours.startswith("todo:")]
    if len(open_cases) > allowed:
        faults += [f"{case}: {answers[case]}" for case in open_cases]
    for fault in faults:
        sys.stderr.write(f"{fault}\n")
    sys.stdout.write(summary(answers, len(open_cases)))
    return 1 if faults else 0


def read_rows(text: str) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the case and the answer of each row, and the lines that look like rows and are none."""
    rows, faults = [], []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("| `"):
            continue
        found = _ROW.fullmatch(line)
        if found and found["pins"].strip():
            rows.append((found["case"], found["ours"].strip()))
        else:
            faults.append(f"docs/conformance.md:{number}: not a row of three filled cells.")
    return rows, faults


def differences(cases: list[str], rows: list[tuple[str, str]]) -> list[str]:
    listed, shown = Counter(cases), Counter(case for case, _ in rows)
    return [
        *(f"{case}: has no row." for case in listed - shown),
        *(
            f"{case}: has a row more than docs/conformance-cases.txt has."
            for case in shown - listed
        ),
        *(f"{case}: is listed more than once." for case, count in listed.items() if count > 1),
    ]


def faults_of(case: str, ours: str) -> list[str]:
    """Return what is wrong with the answer to a case."""
    named = _NODE_ID.findall(ours)
    faults = [
        f"{case}: {file} has no test {name}." for file, name in named if name not in tests_in(file)
    ]
    if ours.startswith(("n/a:", "todo:")):
        enough = len(ours.removeprefix("n/a:").strip()) >= _SHORTEST_REASON or "issue" in ours
        return faults if enough else [*faults, f"{case}: say why, or which issue."]
    return faults if named else [*faults, f"{case}: names no test, no n/a: and no todo:."]


@cache
def tests_in(file: str) -> frozenset[str]:
    path = ROOT / file
    if not path.is_file():
        return frozenset()
    return frozenset(
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    )


def summary(answers: dict[str, str], todo: int) -> str:
    not_applicable = sum(ours.startswith("n/a:") for ours in answers.values())
    tests = {found for ours in answers.values() for found in _NODE_ID.findall(ours)}
    tested = len(answers) - not_applicable - todo
    return (
        f"conformance: {len(answers)} cases: {tested} shown by {len(tests)} tests, "
        f"{not_applicable} do not apply, {todo} to do\n"
    )


if __name__ == "__main__":
    sys.exit(main())
