"""What DESIGN.md and the decisions name exists."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = ROOT / "src" / "heliograph"
DECISIONS = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
DESIGN = (ROOT / "DESIGN.md").read_text()
PAGES = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / "docs").glob("*/*.md"),
    *CODE.rglob("*.py"),
]

NAME = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w./*-]+(/|\.py)")
ADR = re.compile(r"\bADRs? (\d+)(?:(?:, | and )(\d+))?")
LINK = re.compile(r"\[(\d{4})\]\((\d{4})-[\w-]+\.md\)")

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


def test_every_path_in_the_design_exists() -> None:
    paths = [name for name in names_in(DESIGN) if PATH.fullmatch(name)]
    assert len(paths) > 30
    anywhere = (CODE, ROOT, *(CODE / room for cells in file_map() for room in rooms_in(cells[0])))
    assert [path for path in paths if not any(exists_in(top, path) for top in anywhere)] == []


def test_every_module_in_the_file_map_is_in_its_room() -> None:
    named = [
        (room, name)
        for cells in file_map()
        for room in rooms_in(cells[0])
        for name in names_in(cells[2])
    ]
    assert len(named) > 100
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
def test_a_decision_that_is_superseded_and_the_one_that_supersedes_it_name_each_other(
    decision: Path,
) -> None:
    by_number = {number(each): each.read_text() for each in DECISIONS}
    for line, answer in (("**Superseded", "Supersedes"), ("Supersedes", "**Superseded")):
        found = paragraph_of(by_number[number(decision)], line)
        links = LINK.findall(found)
        assert bool(links) == bool(found), found
        for shown, linked in links:
            assert shown == linked
            assert number(decision) in paragraph_of(by_number[linked], answer)


def paragraph_of(text: str, beginning: str) -> str:
    """Return the paragraph that begins so; empty if there is none."""
    return next((part for part in text.split("\n\n") if part.startswith(beginning)), "")
