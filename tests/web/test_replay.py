from pathlib import Path

import pytest

from tests.web.replay import DIFFERENCES, Compared
from tests.web.table import compare_all, page


@pytest.fixture(scope="module")
def compared() -> list[Compared]:
    return compare_all()


def test_every_answer_is_connects_but_for_known_differences(compared: list[Compared]) -> None:
    strange = [each for each in compared if each.verdict == "differs" and not each.reason]

    assert not strange, "\n".join(map(str, strange))


def test_every_known_difference_is_still_one_and_in_the_adr(compared: list[Compared]) -> None:
    differing = {each.theirs.says for each in compared if each.verdict == "differs"}
    told = Path("docs/adr/0007-differences.md").read_text()

    assert DIFFERENCES.keys() == differing
    assert [reason for reason in set(DIFFERENCES.values()) if reason not in told] == []


def test_the_table_of_calls_is_up_to_date(compared: list[Compared]) -> None:
    assert Path("docs/rest.md").read_text() == page(compared), (
        "run PYTHONPATH=src:. python tests/web/table.py > docs/rest.md"
    )
