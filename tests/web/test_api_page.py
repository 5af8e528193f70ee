import re
from pathlib import Path

from heliograph.web.page import page_files
from tests.web.api_table import page


def test_the_page_of_our_own_routes_is_up_to_date() -> None:
    assert Path("docs/api.md").read_text() == page(), (
        "run PYTHONPATH=src:. python tests/web/api_table.py > docs/api.md"
    )


def test_every_screen_is_in_the_manual_with_its_picture() -> None:
    named = re.findall(r'\], "([a-z-]+)"\]', page_files().by_path["app.js"].plain.decode())
    shown = re.findall(r"\(screens/([a-z-]+)\.png\)", Path("docs/page.md").read_text())
    assert "map" in named
    assert set(named) <= set(shown)
