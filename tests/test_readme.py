"""The documents' example output is the real one: each of its lines is printed by the command beside it."""

from __future__ import annotations

import re
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import weftrace
from weftrace.plan import deepseek_training_layers, simulate
from weftrace.render.lanes_text import print_lanes
from weftrace.report import analyze, print_report
from weftrace.trace import Trace

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def document(shared_data: Path) -> Any:
    trace = weftrace.open(shared_data / "deepseek-v3-train.json.gz")
    assert isinstance(trace, Trace)
    return analyze(trace, timelines=False).document


def printed(draw: Callable[[Console], None]) -> str:
    console = Console(file=StringIO(), width=80, color_system=None)
    draw(console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(text, str)
    return text


def squeezed(text: str) -> str:
    """Without the bar's fill and with single blanks: pages leave out the colour marks."""
    return re.sub(r"[ ░▒▞█\n]+", " ", text)


@pytest.mark.parametrize("page", ["docs/tour.md", "docs/overlap.md"])
def test_example_output_is_what_is_printed(document: Any, page: str) -> None:
    output = squeezed(printed(lambda console: print_report(document, console)))
    picture = printed(lambda console: print_lanes(document["ranks"][0], console, 80))
    examples = re.findall(r"```text\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert examples
    for example in examples:
        for line in filter(str.strip, example.splitlines()):
            if "┬" in example:
                assert line.rstrip() in picture, line
            else:
                assert squeezed(line).strip() in output, line


def test_the_terminal_page_shows_the_simulated_lanes() -> None:
    rank = analyze(simulate(deepseek_training_layers(4)), timelines=False).document["ranks"][0]
    picture = {line.rstrip() for line in printed(lambda console: print_lanes(rank, console, 80)).splitlines()}
    text = (ROOT / "docs/terminal.md").read_text(encoding="utf-8")
    example = next(block for block in text.split("```")[1::2] if "┬0 ms" in block)
    assert [line for line in example.splitlines() if line.rstrip() not in picture] == []
