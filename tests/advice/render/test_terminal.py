"""Critical paths, what-ifs, sensitivities and checks in a terminal, as they stand in 80 columns."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from tests.advice.render.documents import CHECKS, PATH, SENSITIVITY, WHAT_IF
from weftrace.advice.outputs import CHECKS as CHECKS_KIND
from weftrace.advice.outputs import CRITICAL_PATH, SCHEMAS
from weftrace.advice.outputs import SENSITIVITY as SENSITIVITY_KIND
from weftrace.advice.outputs import WHAT_IF as WHAT_IF_KIND
from weftrace.advice.render.whatif_terminal import print_what_if
from weftrace.outputs import Output

GOLDEN = Path(__file__).parent / "golden"
SHOWN: Mapping[str, tuple[Output, Mapping[str, Any]]] = {
    "path": (CRITICAL_PATH, PATH),
    "what-if": (WHAT_IF_KIND, WHAT_IF),
    "sensitivity": (SENSITIVITY_KIND, SENSITIVITY),
    "checks": (CHECKS_KIND, CHECKS),
}


def printed(name: str, width: int) -> str:
    kind, document = SHOWN[name]
    assert kind.load is not None and kind.show is not None
    file = io.StringIO()
    kind.show(kind.load(document, what=name), Console(file=file, width=width, force_terminal=False))
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


@pytest.mark.parametrize("name", SHOWN)
def test_it_reads_as_the_golden_does(name: str) -> None:
    """After a wanted change: WEFTRACE_UPDATE_GOLDENS=1, then read the difference."""
    text, path = printed(name, 80), GOLDEN / f"{name}-80.txt"
    if os.environ.get("WEFTRACE_UPDATE_GOLDENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_line_is_wider_than_the_console(width: int) -> None:
    for name in SHOWN:
        assert max(map(len, printed(name, width).splitlines())) <= width, name


def test_what_a_table_of_two_paths_leaves_out_is_one_row_more() -> None:
    file = io.StringIO()
    print_what_if(WHAT_IF, Console(file=file, width=80), top=1)  # 6.2 and 3.0 ms before; after 8.8, and 0.2 idle
    row = next(line.split() for line in file.getvalue().splitlines() if "2 more" in line)
    assert row == ["2", "more", "3,000.0", "32.6", "%", "200.0", "2.2", "%"]


def test_the_documents_are_what_their_types_say() -> None:
    types = {schema.schema: schema.document for schema in SCHEMAS}
    for _, document in SHOWN.values():
        msgspec.convert(document, types[document["schema"]])
