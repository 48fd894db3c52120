"""Writes the Python of the first documents into out/snippets/, where `make lint` checks its types as an editor does."""

from __future__ import annotations

from pathlib import Path

from tests.test_docs import blocks

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/start.md", "docs/notebooks.md")
#: What else must pass a strict type checker.
EXTRA = "trace = wt.open('a.json')\nwt.analysis.breakdown(trace)\njob = wt.open('a', 'b')\njob.paths\n"


def main() -> None:
    folder = ROOT / "out/snippets"
    folder.mkdir(parents=True, exist_ok=True)
    for page in PAGES:
        found = [block.text for block in blocks((ROOT / page).read_text()) if block.language == "python"]
        text = "\n".join(block for block in found if "import torch" not in block)
        extra = EXTRA if page == "README.md" else ""
        (folder / f"{Path(page).stem.lower()}_snippets.py").write_text(f"{text}\n{extra}")


if __name__ == "__main__":
    main()
