"""Critical paths, what-ifs, sensitivities and checks in a terminal, as they stand in 80 columns."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.advice.render.documents import CHECKS, PATH, SENSITIVITY, WHAT_IF
from tests.same_documents import Difference, compare
from weftrace.advice.outputs import CHECKS as CHECKS_KIND
from weftrace.advice.outputs import CRITICAL_PATH
from weftrace.advice.outputs import SENSITIVITY as SENSITIVITY_KIND
from weftrace.advice.outputs import WHAT_IF as WHAT_IF_KIND
from weftrace.advice.render.whatif_terminal import print_what_if
from weftrace.errors import DocumentError
from weftrace.outputs import Output

GOLDEN = Path(__file__).parent / "golden"
SHOWN: Mapping[str, tuple[Output, Mapping[str, Any]]] = {
    "path": (CRITICAL_PATH, PATH),
    "what-if": (WHAT_IF_KIND, WHAT_IF),
    "sensitivity": (SENSITIVITY_KIND, SENSITIVITY),
    "checks": (CHECKS_KIND, CHECKS),
}


def loaded(name: str) -> Any:
    kind, document = SHOWN[name]
    assert kind.load is not None
    return kind.load(document, what=name)


def printed(name: str, width: int) -> str:
    show, file = SHOWN[name][0].show, io.StringIO()
    assert show is not None
    show(loaded(name), Console(file=file, width=width, force_terminal=False))
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
    # 6.2 and 3.0 ms before; after 8.8, and 0.2 idle
    print_what_if(loaded("what-if"), Console(file=file, width=80), top=1)
    row = next(line.split() for line in file.getvalue().splitlines() if "2 more" in line)
    assert row == ["2", "more", "3,000.0", "32.6", "%", "200.0", "2.2", "%"]


@pytest.mark.parametrize("name", SHOWN)
def test_a_document_is_saved_as_it_was_read(name: str) -> None:
    kind, document = SHOWN[name]
    assert kind.document is not None
    again = json.loads(json.dumps(kind.document(loaded(name))))
    found = compare(rounded(document), rounded(again), Difference())
    assert not found.unlike and not found.added


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return round(value, 4) if isinstance(value, float) else value


def test_a_source_of_waits_that_is_unknown_is_named_by_its_place() -> None:
    broken = {**PATH, "waits": [{**PATH["waits"][0], "source": "rumour"}]}
    assert CRITICAL_PATH.load is not None
    with pytest.raises(DocumentError, match=r"path\.json: .*rumour.*waits"):
        CRITICAL_PATH.load(broken, what="path.json")
