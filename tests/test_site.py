"""The documentation site, without building it: its navigation has every page, and links that it moves lead somewhere.

`make site` builds it, strictly; that takes half a minute, so continuous integration does not.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from website import pages

ROOT = Path(__file__).resolve().parents[1]
PARTS = ["Start", "Tutorials", "How-to", "Reference", "Concepts"]


CONFIG = (ROOT / "website" / "mkdocs.yml").read_text()


def test_the_navigation_has_every_document_once() -> None:
    navigation = CONFIG.partition("\nnav:\n")[2]
    assert re.findall(r"^  - ([\w-]+):$", navigation, re.MULTILINE) == PARTS
    documents = {path.name for path in (ROOT / "docs").glob("*.md")}
    project = {pages.site_path(path) for path in pages.PROJECT}
    named = re.findall(r"^ +- (?:.+: )?(\S+\.md)$", navigation, re.MULTILINE)
    assert sorted(named) == sorted({*documents, *project, "index.md", "examples.md"})


def test_every_wing_has_a_page_of_reference() -> None:
    from weftrace.wings import WINGS

    assert {f"weftrace.{wing.name}" for wing in WINGS} <= set(pages.packages())
    assert all(pages.names_of(package) for package in pages.packages())


@pytest.mark.parametrize(
    ("page", "link", "moved"),
    [
        ("project/readme.md", "docs/start.md#a-server", "../start.md#a-server"),
        ("project/readme.md", "CONTRIBUTING.md", "contributing.md"),
        ("project/readme.md", "docs/images/job.png", "../images/job.png"),
        ("plan.md", "../ARCHITECTURE.md", "project/architecture.md"),
        ("hardware.md", "../src/weftrace/facts/hardware.toml", "files/src/weftrace/facts/hardware.toml.md"),
        ("plan.md", "start.md", "start.md"),
        ("index.md", "examples/report.html", "examples/report.html"),
    ],
)
def test_links_lead_to_where_the_site_has_their_targets(page: str, link: str, moved: str) -> None:
    assert pages.moved_links(f"[text]({link})", page) == f"[text]({moved})"


def test_links_of_the_start_page_lead_somewhere() -> None:
    made = {example.page for example in pages.EXAMPLES} | {f"api/{name}.md" for name in pages.packages()}
    targets = re.findall(r"\]\(([^)#]+)", (ROOT / "website" / "index.md").read_text())
    assert targets and [each for each in targets if each not in made and not (ROOT / "docs" / each).exists()] == []
    assert [each for each in pages.EXAMPLES if not (ROOT / "docs" / "images" / each.picture).exists()] == []


def test_nothing_is_fetched_from_a_network() -> None:
    assert "\n  font: false" in CONFIG and "\nuse_directory_urls: false" in CONFIG
    assert "repo_url" not in CONFIG, "the theme asks its host for numbers of stars"
    written = [path for path in (ROOT / "website").rglob("*") if path.suffix in {".css", ".js", ".md", ".yml"}]
    assert [path.name for path in written if re.search(r"https?://", path.read_text())] == []
