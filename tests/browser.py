"""A browser for the tests of pages: fixtures that every folder has through tests/conftest.py."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

CHROMIUM_ARGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip

Open = Callable[..., "Page"]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, driven by Playwright. Without it tests are skipped; in CI they fail."""
    path = "/usr/bin/chromium" if Path("/usr/bin/chromium").exists() else shutil.which("chromium")
    if path is None:
        reason = "Chromium is not installed: 'apt-get install chromium' brings it"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_ARGS)
        yield browser
        browser.close()


@pytest.fixture
def open_html(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens a page's text from a file, with no network; at the end, nothing may have been said on the console."""
    said: list[str] = []
    contexts: list[BrowserContext] = []

    def opened(html: str, *, expect_errors: bool = False, **options: Any) -> Page:
        path = tmp_path / f"report{len(contexts)}.html"
        path.write_text(html, encoding="utf-8")
        # No motion: a glide would make what is on the screen depend on when one looks.
        usual: dict[str, Any] = {"viewport": {"width": 1440, "height": 900}, "reduced_motion": "reduce"}
        contexts.append(browser.new_context(**{**usual, "offline": True, **options}))
        page = contexts[-1].new_page()
        if not expect_errors:
            page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
            page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.on("request", lambda request: said.append(request.url) if request.url.startswith("http") else None)
        page.goto(path.as_uri())
        page.wait_for_function("() => performance.getEntriesByName('weftrace-first-paint').length === 1")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not said, said
