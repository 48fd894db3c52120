"""The glossary's definitions that the code has: terms of words.py stand once, and docs/glossary.md repeats them.

`python -m tests.glossary` fills them in. In the page a paragraph that begins with `<!-- wing.key -->` is the term of
that key in the wing's words.py and what it means; what stands from the arrow on is the page's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from weftrace.advice.render.words import PATH_TERMS, WHAT_IF_TERMS
from weftrace.comparison.render.words import DIFF_TERMS
from weftrace.experts.render.words import PLACEMENT_TERMS, REPLAY_TERMS
from weftrace.flops.render import words as flops
from weftrace.moe.render.words import PAYS_TERMS, PROFILE_TERMS
from weftrace.render.findings_parts import FINDING_TERMS
from weftrace.report.render import words as report

FILE = Path(__file__).parents[1] / "docs" / "glossary.md"
TERMS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "report": report.TERMS,
    "flops": flops.TERMS,
    "experts": {**REPLAY_TERMS, **PLACEMENT_TERMS},
    "moe": {**PAYS_TERMS, **PROFILE_TERMS},
    "advice": {**WHAT_IF_TERMS, **PATH_TERMS},
    "comparison": DIFF_TERMS,
    "findings": FINDING_TERMS,
}
_ENTRY = re.compile(r"<!-- (\w+)\.(\w+) -->\s.*?(→ .*)", re.DOTALL)


def filled(page: str) -> str:
    """The page with each marked paragraph's term and definition as words.py has them now."""
    return "\n\n".join(map(_filled_paragraph, page.split("\n\n")))


def _filled_paragraph(paragraph: str) -> str:
    entry = _ENTRY.fullmatch(paragraph.rstrip("\n"))
    if entry is None:
        return paragraph
    wing, key, more = entry.groups()
    term, meaning = TERMS[wing][key]
    # In one line: a line that began with "+ exposed communication" would be a list's.
    return f"<!-- {wing}.{key} -->\n**{term}.** {meaning} {' '.join(more.split())}" + "\n" * paragraph.endswith("\n")


if __name__ == "__main__":
    FILE.write_text(filled(FILE.read_text()))
