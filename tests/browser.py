"""A real browser that looks at the page, and remembers whatever it complained of."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Response, sync_playwright

_SHOTS = "HELIOGRAPH_SCREENSHOTS"
_WAIT_MS = 15_000


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Start Chromium without a window; a machine that has none skips, unless it is CI's."""
    found = shutil.which("chromium")
    if found is None:
        assert not os.environ.get("CI"), "chromium is missing"
        pytest.skip("chromium is not on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--disable-background-networking"]
        )
        try:
            yield browser
        finally:
            browser.close()


class Viewer:
    """Somebody who looks at the page, with a login or without."""

    def __init__(
        self,
        browser: Browser,
        url: str,
        login: tuple[str, str] | None = None,
        *,
        width: int = 1280,
        scheme: str = "light",
    ) -> None:
        self.url = url
        self.complaints: list[str] = []
        credentials = {"username": login[0], "password": login[1]} if login else None
        self._context = browser.new_context(
            viewport={"width": width, "height": 850},
            color_scheme="dark" if scheme == "dark" else "light",
            http_credentials=credentials,  # type: ignore[arg-type]  # it takes a plain dict
        )
        self.page: Page = self._context.new_page()
        self.page.set_default_timeout(_WAIT_MS)
        self.page.on("console", self._note_console)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))
        self.page.on("response", self._note_response)

    def _note_console(self, message: object) -> None:
        kind, text = message.type, message.text  # type: ignore[attr-defined]
        if kind in ("error", "warning"):
            self.complaints.append(f"{kind}: {text}")

    def _note_response(self, response: Response) -> None:
        # The first 401 is how a browser learns that it has to log in.
        if response.status >= 400 and response.status != 401:
            self.complaints.append(f"{response.status} {response.url}")

    def open(self, address: str, shows: str) -> None:
        """Load the page at a screen, and wait until it shows an element."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.url}/#/{address}")
        self.page.wait_for_selector(f"#main >> {shows}")

    def text(self, selector: str = "#main") -> str:
        return self.page.inner_text(selector)

    def keep(self, name: str) -> None:
        """Keep a picture of the screen, if somebody wants pictures."""
        if folder := _album():
            self.page.screenshot(path=str(folder / f"{name}.png"))

    def close(self) -> None:
        self._context.close()


def note(figure: str) -> None:
    """Keep a figure that was measured beside the pictures."""
    if folder := _album():
        with (folder / "figures.txt").open("a") as kept:
            kept.write(f"{figure}\n")


def _album() -> Path | None:
    folder = os.environ.get(_SHOTS)
    if not folder:
        return None
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder)
