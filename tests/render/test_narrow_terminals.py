"""A terminal of 80 columns cuts names, never a number: what it prints of numbers, one of 200 columns prints too."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from tests.experts.render import documents as experts
from tests.flops.small_reports import TINY, huge
from tests.render.extreme_pages import strained
from tests.report import documents
from weftrace.experts.render.terminal import print_placement, print_replay
from weftrace.flops.render.diff_terminal import print_flops_diff
from weftrace.flops.render.predictions import print_sweep
from weftrace.flops.render.terminal import print_flops
from weftrace.flops.several.diff import diff
from weftrace.flops.several.sweep import Sweep, SweepPoint
from weftrace.render.console_text import suited
from weftrace.render.lanes_text import print_lanes
from weftrace.report.render.terminal import print_report

Print = Callable[[Console], None]


def sweep() -> Sweep:
    """Three points, as large as numbers of a cluster are."""
    points = [
        SweepPoint(at={"batch": batch, "context": 131_072}, flops=17_200_000_000_000 * batch, full_flops=10**15 * batch,
                   executed_flops=10**15, vector_flops=29_700_000, moved_bytes=15_600_000_000 * batch,
                   intensity=1234567.1, param_bytes=10**11, tokens=batch, step_ns=123_456_789 * batch,
                   bound_ns=4.65e6 * batch, predicted_ns=7.75e6 * batch, bound="memory", tokens_per_s=1_234_567.8)
        for batch in (1, 1_024, 1_048_576)
    ]  # fmt: skip
    return Sweep(model="a-model-with-a-long-name", axes={"batch": (1,), "context": (131_072,)}, hardware="H100 SXM",
                 points=tuple(points), assumptions=(), notes=())  # fmt: skip


PRINTS: dict[str, Callable[[Path], Print]] = {
    "report": lambda folder: lambda console: print_report(strained(folder).document, console),
    "report of 64 ranks": lambda _: lambda console: print_report(documents.job(64), console),
    "experts balance": lambda _: (
        lambda console: print_placement(experts.read(experts.large_placement(61, 256, 320, 64, 8, moved=0.2)), console)
    ),
    "experts replay": lambda _: lambda console: print_replay(experts.read(experts.large_replay(200)), console),
    "flops": lambda _: lambda console: print_flops(huge(300), console, hardware="h100"),
    "flops sweep": lambda _: lambda console: print_sweep(sweep(), console),
    "flops diff": lambda _: lambda console: print_flops_diff(diff(TINY, huge(10)), console),
}
#: A number with what belongs to it, standing by itself.
NUMBER = re.compile(r"(?<![^\s(])[≤≥~+−-]?\d[\d,]*(?:\.\d+)?(?![^\s,;:.)%×]|[.,]\d)")
#: A number of which a part was replaced: digits, then an ellipsis (or the reverse), and nothing else in the word.
CUT = re.compile(r"(?<!\S)[≤≥~+−-]?(?:[\d.,]+…[\d.,]*|…[\d.,]+)(?:%|×)?(?!\S)")


def at(draw: Print, width: int) -> str:
    text = io.StringIO()
    draw(Console(file=text, width=width, color_system=None))
    return text.getvalue()


@pytest.mark.parametrize("name", PRINTS)
def test_80_columns_cut_no_number(name: str, tmp_path: Path) -> None:
    draw = PRINTS[name](tmp_path)
    narrow, wide = at(draw, 80), at(draw, 200)
    assert not CUT.findall(narrow)
    said = set(NUMBER.findall(wide))
    assert len(said) > 20
    strange = {number for number in NUMBER.findall(narrow) if number not in said}
    assert not strange, strange


@pytest.mark.parametrize("make", [documents.document, documents.many_layers, documents.no_phases])
def test_lanes_cut_no_number(make: Callable[[], Any]) -> None:
    """Scales differ by width, so what is asked here is only that no number lost a part."""
    text = at(lambda console: print_lanes(make()["ranks"][0], console), 80)
    assert not CUT.findall(text)
    for cell in re.findall(r"│([^│┃]*…[^│┃]*)[│┃]", text):
        assert re.search(r"[A-Za-z_]", cell), cell  # a name


def test_what_is_cut_is_found() -> None:
    assert CUT.findall("gemm_…_4  12,3…  ≤1…2  …45 %") == ["12,3…", "≤1…2", "…45"]


def test_no_name_is_a_command_to_a_runner_of_ci() -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    names = ["::error::x", "  ::stop-commands::t", "##[error]x", "a ##vso[task.complete]", "at::native ## [x]"]
    for name in names:
        console.print(suited(Text(f"{name} end"), console))
    written = console.file.getvalue()  # type: ignore[attr-defined]
    assert written.splitlines() == [
        r"\x3a:error::x end",
        r"  \x3a:stop-commands::t end",
        r"#\x23[error]x end",
        r"a #\x23vso[task.complete] end",
        "at::native ## [x] end",
    ]
