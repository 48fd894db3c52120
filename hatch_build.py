"""What a build makes: the README as a package index shows it, and the JSON Schemas of documents in the wheel.

An index has no docs/ beside the page, so links into the repository become text, and a sentence says where they lead.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

_IMAGE = re.compile(r"^!\[[^\]]*\]\((?![a-z]+:)[^)]*\)\n\n(\*.*\*\n\n)?", re.MULTILINE)  # with the caption below it
_LANGUAGES = re.compile(r"^\[English\]\(README\.md\).*\n\n", re.MULTILINE)  # an index has one page
_LINK = re.compile(r"\[([^\]]*)\]\((?![a-z]+:|#)[^)]*\)")
_PAGES = "The pages named above are in docs/ of the source distribution, where `make site` builds them with search.\n"


def for_an_index(readme: str) -> str:
    """Without pictures that lie in the repository and other languages; of links into it, the text."""
    return _LINK.sub(r"\1", _IMAGE.sub("", _LANGUAGES.sub("", readme))) + "\n" + _PAGES


class IndexReadme(MetadataHookInterface):
    """Gives the metadata their `readme`; hatchling finds this class by itself."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text("utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_an_index(text)}


class Schemas(BuildHookInterface):  # type: ignore[type-arg]
    """Writes the wheel's weftrace/schemas/; an editable install needs none, as nothing reads them at run time."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Documents are types of the package, so their schemas are made by importing it, with what it depends on."""
        if version == "editable":
            return
        self.made = TemporaryDirectory()
        path = os.pathsep.join(filter(None, [str(Path(self.root) / "src"), os.environ.get("PYTHONPATH")]))
        command = [sys.executable, "-m", "weftrace.files.schemas", "--to", self.made.name]
        subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=True)
        build_data["force_include"][self.made.name] = "weftrace/schemas"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """The wheel has them now."""
        if version != "editable":
            self.made.cleanup()
