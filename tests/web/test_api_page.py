from pathlib import Path

from tests.web.api_table import page


def test_the_page_of_our_own_routes_is_up_to_date() -> None:
    assert Path("docs/api.md").read_text() == page(), (
        "run PYTHONPATH=src:. python tests/web/api_table.py > docs/api.md"
    )
