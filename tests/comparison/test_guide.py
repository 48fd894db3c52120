"""docs/diff.md says of figures and exits what the command says."""

from __future__ import annotations

from tests.conftest import ROOT
from weftrace.comparison.render.words import FIGURE_TERMS

PAGE = (ROOT / "docs" / "diff.md").read_text()


def test_the_guide_lists_every_figure_as_the_command_does() -> None:
    table = PAGE.split("| figure |")[1].split("\n\n")[0]
    assert [line for line in table.splitlines() if line.startswith("| `")] == [
        f"| `{form}` | {meaning} |" for form, meaning in FIGURE_TERMS.items()
    ]
