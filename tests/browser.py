"""A browser for the tests of pages: fixtures that every folder has through tests/conftest.py."""

from __future__ import annotations

import os
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM_ARGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip

#: The same engine; the first has no window of its own around each page, and takes two thirds of the processor time.
BROWSERS = ("chromium-headless-shell", "chromium")

Open = Callable[..., "Page"]
Pool = defaultdict[str, list["Page"]]


def chromium() -> str | None:
    """The first of `BROWSERS` that is installed."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/bin"])
    return next(filter(None, (shutil.which(name, path=path) for name in BROWSERS)), None)


def wait_until(page: Page, expression: str, *, arg: object = None, seconds: float = 30) -> None:
    """Ask a page again and again until `expression` holds.

    Playwright's `wait_for_function` asks again from a timer of the page, where its `eval` is what the page's policy
    refuses: it only works where the first answer is yes.
    """
    end = time.monotonic() + seconds
    while not page.evaluate(expression, arg):
        assert time.monotonic() < end, f"{seconds:g} s have passed without {expression}"
        page.wait_for_timeout(10)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, driven by Playwright. Without it tests are skipped; in CI they fail."""
    path = chromium()
    if path is None:
        reason = "Chromium is not installed: 'apt-get install chromium-headless-shell' brings it"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_ARGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def idle_pages() -> Pool:
    """Tabs that earlier tests opened, by their options. A new one costs three times what the page in it does."""
    return defaultdict(list)


@pytest.fixture
def open_html(browser: Browser, idle_pages: Pool, tmp_path: Path) -> Iterator[Open]:
    """Opens a page's text from a file, with no network; at the end, nothing may have been said on the console."""
    said: list[str] = []
    in_use: list[tuple[str, Page, dict[str, Callable[[Any], None]]]] = []

    def opened(html: str, *, expect_errors: bool = False, **options: Any) -> Page:
        path = tmp_path / f"report{len(in_use)}.html"
        path.write_text(html, encoding="utf-8")
        # No motion: a glide would make what is on the screen depend on when one looks.
        usual: dict[str, Any] = {"viewport": {"width": 1440, "height": 900}, "reduced_motion": "reduce"}
        context = {**usual, "offline": True, **options}
        kind = repr(sorted(context.items()))
        page = idle_pages[kind].pop() if idle_pages[kind] else browser.new_context(**context).new_page()
        if page.viewport_size != context["viewport"]:  # the test before made it narrower, say
            page.set_viewport_size(context["viewport"])
        listeners: dict[str, Callable[[Any], None]] = {
            "request": lambda request: said.append(request.url) if request.url.startswith("http") else None
        }
        if not expect_errors:
            listeners["console"] = lambda message: said.append(f"{message.type}: {message.text}")
            listeners["pageerror"] = lambda error: said.append(f"error: {error}")
        for event, listener in listeners.items():
            page.on(event, listener)  # type: ignore[call-overload] # one overload an event
        in_use.append((kind, page, listeners))
        page.goto(path.as_uri())
        wait_until(page, "() => performance.getEntriesByName('weftrace-first-paint').length === 1")
        return page

    yield opened
    for kind, page, listeners in in_use:
        page.mouse.up()
        page.mouse.move(0, 0)
        page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
        page.goto("about:blank")
        for event, listener in listeners.items():
            page.remove_listener(event, listener)
        idle_pages[kind].append(page)
    assert not said, said
