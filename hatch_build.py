"""The README as a package index shows it: with no docs/ beside the page, links into the repository stay text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_IMAGE = re.compile(r"^!\[[^\]]*\]\((?![a-z]+:)[^)]*\)\n\n(\*.*\*\n\n)?", re.MULTILINE)  # with the caption below it
_LANGUAGES = re.compile(r"^\[English\]\(README\.md\).*\n\n", re.MULTILINE)  # an index has one page
_LINK = re.compile(r"\[([^\]]*)\]\((?![a-z]+:|#)[^)]*\)")


def for_an_index(readme: str) -> str:
    """Without pictures that lie in the repository and other languages; of links into it, the text."""
    return _LINK.sub(r"\1", _IMAGE.sub("", _LANGUAGES.sub("", readme)))


class IndexReadme(MetadataHookInterface):
    """Gives the metadata their `readme`; hatchling finds this class by itself."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text("utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_an_index(text)}
