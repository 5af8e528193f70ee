"""What DESIGN.md and the decisions name exists, and every decision has a status and a line in the index."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = ROOT / "src" / "heliograph"
ADRS = ROOT / "docs" / "adr"
DECISIONS = sorted(ADRS.glob("[0-9]*.md"))
INDEX = (ADRS / "README.md").read_text()
DESIGN = (ROOT / "DESIGN.md").read_text()
PAGES = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / "docs").glob("*/*.md"),
    *CODE.rglob("*.py"),
]

NAME = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w./*-]+(/|\.(py|js|yml|md))")
# A module and the names behind it, as in `copying/copier.py` `Copier.run`, `Copier.close`.
NAMED = re.compile(r"`([\w/*]+\.py)`((?:(?:,| and)?\s+`(?![\w/*]+\.py`)[A-Za-z_][\w.]*`)+)")
# A method after its class was introduced, as in `Copier.run`.
DOTTED = re.compile(r"`([A-Z]\w+\.[a-z_]\w*)`")
ADR = re.compile(r"\bADRs? (\d+)(?:(?:, | and )(\d+))?")
LINK = re.compile(r"\[(\d{4})\]\((\d{4}-[\w-]+\.md)\)")
# Accepted; or superseded, by which decision, and what took its place.
STATUS = re.compile(
    r"\*\*Status:\*\* (?:(Accepted)\.|(Superseded(?: in part)?) by \[\d{4}\]\([\w.-]+\): \w+)"
)

decisions = pytest.mark.parametrize("decision", DECISIONS, ids=lambda path: path.name)


def names_in(text: str) -> list[str]:
    return NAME.findall(text)


def exists_in(folder: Path, name: str) -> bool:
    """Whether a name is a file, a module or a folder in `folder`; a * stands for any characters."""
    return any(any(folder.glob(each)) for each in (name.rstrip("/"), f"{name}.py"))


def file_map() -> Iterator[tuple[str, str, str]]:
    """Yield the cells of each row of the file map."""
    section = DESIGN.split("## File map\n")[1].split("\n## ")[0]
    for line in section.splitlines():
        if line.startswith("| `"):
            room, _, knows, look = line.strip("| ").split(" | ")
            yield room, knows, look


def rooms_in(cell: str) -> list[str]:
    return [name.rstrip("/") for name in names_in(cell) if name.endswith("/")]


def number(decision: Path) -> str:
    return decision.name[:4]


@cache
def defined_in(module: Path) -> frozenset[str]:
    """Return what a module defines: its names, and those of its classes as Class.name."""
    return frozenset(_definitions(ast.parse(module.read_text()).body, ""))


def _definitions(body: list[ast.stmt], prefix: str) -> Iterator[str]:
    for each in body:
        match each:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield prefix + each.name
            case ast.ClassDef():
                yield prefix + each.name
                yield from _definitions(each.body, f"{each.name}.")
            case ast.Assign():
                for target in each.targets:
                    parts = target.elts if isinstance(target, ast.Tuple) else [target]
                    yield from (prefix + part.id for part in parts if isinstance(part, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield prefix + name
            case _:
                pass


def undefined_in(text: str) -> list[str]:
    """Return the names that stand behind a module and that it does not define."""
    return [
        f"{path} {name}"
        for path, behind in NAMED.findall(text)
        for name in names_in(behind)
        if not any(name in defined_in(module) for module in CODE.glob(path))
    ]


def test_every_path_in_the_design_exists() -> None:
    paths = [name for name in names_in(DESIGN) if PATH.fullmatch(name)]
    assert len(paths) > 150
    anywhere = (CODE, ROOT, *(CODE / room for cells in file_map() for room in rooms_in(cells[0])))
    assert [path for path in paths if not any(exists_in(top, path) for top in anywhere)] == []


def test_every_function_and_class_in_the_design_is_in_the_module_that_it_names() -> None:
    assert len(NAMED.findall(DESIGN)) > 100
    assert undefined_in(DESIGN) == []


def test_every_method_in_the_design_exists() -> None:
    known = {name for module in CODE.rglob("*.py") for name in defined_in(module)}
    assert [name for name in DOTTED.findall(DESIGN) if name not in known] == []


def test_a_name_that_its_module_does_not_define_is_found() -> None:
    copier, missing = "`copying/copier.py`", ["copying/copier.py Copier.fly"]
    assert undefined_in(f"{copier} `Copier.run`, `Copier.fly`; `Engine`") == missing
    assert undefined_in(f"{copier} and then `Copier.fly`") == []
    assert undefined_in("`copying/pilot.py` `Pilot`") == ["copying/pilot.py Pilot"]
    assert undefined_in(f"{copier}\n`_SOON` and `spark/engine.py` `Engine`, `cause_of`") == []


def test_every_module_in_the_file_map_is_in_its_room() -> None:
    named = [
        (room, name)
        for cells in file_map()
        for room in rooms_in(cells[0])
        for name in names_in(cells[2])
    ]
    assert len(named) > 150
    assert [f"{room}/{name}" for room, name in named if not exists_in(CODE / room, name)] == []


def test_the_file_map_has_every_room() -> None:
    rooms = {path.parent.name for path in CODE.glob("*/__init__.py")}
    assert {room for cells in file_map() for room in rooms_in(cells[0])} == rooms


def test_every_decision_that_is_named_exists() -> None:
    known = {int(number(decision)) for decision in DECISIONS}
    unknown = [
        f"{page.relative_to(ROOT)}: ADR {found}"
        for page in PAGES
        for numbers in ADR.findall(page.read_text())
        for found in numbers
        if found and int(found) not in known
    ]
    assert unknown == []


@decisions
def test_every_link_from_a_decision_to_another_leads_to_it(decision: Path) -> None:
    names = {each.name for each in DECISIONS}
    links = LINK.findall(decision.read_text())
    assert [link for link in links if link[1] not in names or not link[1].startswith(link[0])] == []


@decisions
def test_a_decision_begins_with_its_number_its_title_and_its_status(decision: Path) -> None:
    title, empty, status = decision.read_text().splitlines()[:3]
    assert title.startswith(f"# {number(decision)} ")
    assert not empty
    assert STATUS.match(status), status


@decisions
def test_a_decision_that_is_superseded_and_the_one_that_supersedes_it_name_each_other(
    decision: Path,
) -> None:
    by_number = {number(each): each.read_text() for each in DECISIONS}
    for line, answer in (
        ("**Status:** Superseded", "**Supersedes"),
        ("**Supersedes", "**Status:** Superseded"),
    ):
        found = paragraph_of(by_number[number(decision)], line)
        links = LINK.findall(found)
        assert bool(links) == bool(found), found
        for shown, _ in links:
            assert number(decision) in paragraph_of(by_number[shown], answer), shown


@decisions
def test_the_modules_that_an_accepted_decision_names_exist(decision: Path) -> None:
    if status_of(decision) != "Accepted":
        return
    named = re.findall(r"`([a-z_]+/[\w/]+\.(?:py|md|yml))`", decision.read_text())
    assert [
        path for path in named if not (CODE / path).exists() and not (ROOT / path).exists()
    ] == []


def test_the_index_lists_every_decision_with_its_title_and_status() -> None:
    expected = [(number(each), each.name, title_of(each), status_of(each)) for each in DECISIONS]
    rows = [line.strip("| ").split(" | ") for line in INDEX.splitlines() if "](0" in line[:12]]
    shown = [(*LINK.findall(row[0])[0], row[1], row[2].split(" by ")[0]) for row in rows]
    assert shown == expected
    assert all(len(row) == 4 and row[3].endswith(".") for row in rows)


def test_the_index_explains_each_number_that_has_no_decision() -> None:
    taken = {int(number(each)) for each in DECISIONS}
    missing = [f"{each:04}" for each in range(1, max(taken)) if each not in taken]
    assert [each for each in missing if f"\n{each}: " not in INDEX] == []


def title_of(decision: Path) -> str:
    return decision.read_text().splitlines()[0].removeprefix(f"# {number(decision)} ")


def status_of(decision: Path) -> str:
    found = STATUS.search(decision.read_text())
    return (found[1] or found[2]) if found else ""


def paragraph_of(text: str, beginning: str) -> str:
    """Return the paragraph that begins so; empty if there is none."""
    return next((part for part in text.split("\n\n") if part.startswith(beginning)), "")
