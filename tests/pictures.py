"""The pictures of the documents: screenshots of pages that weftrace wrote.

    python -m tests.pictures PAGE.html PICTURE.png [WIDTH HEIGHT [SECTION [VIEW]]]

SECTION: the id of a part of the page (`#series`) that the picture begins with, below the page's head. VIEW: what the
page's address says of the view (`#event=950`).
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.browser import CHROMIUM_ARGS, chromium, wait_until


def take(
    page_path: Path, picture: Path, width: int = 1440, height: int = 900, section: str = "", view: str = ""
) -> None:
    """Open a page with no network and save what a window of that size shows, in the light theme."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_ARGS)
        context = browser.new_context(
            viewport={"width": width, "height": height}, offline=True, reduced_motion="reduce", color_scheme="light"
        )
        page = context.new_page()
        page.goto(page_path.resolve().as_uri() + section)
        wait_until(page, "() => performance.getEntriesByName('weftrace-first-paint').length === 1")
        if view:
            page.evaluate("(view) => { location.hash = view; }", view)
        page.wait_for_timeout(300)
        page.screenshot(path=picture)
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    html, png, width, height, section, view, *_ = [*sys.argv[1:], *["1440", "900", "", ""][len(sys.argv) - 3 :]]
    take(Path(html), Path(png), int(width), int(height), section, view)
