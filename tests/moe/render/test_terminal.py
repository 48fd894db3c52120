"""A simulated profile in a terminal, as it stands in 80 columns."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from tests.moe.render.profiles import made
from weftrace.moe.profiles import Profile
from weftrace.moe.render.terminal import print_profile

GOLDEN = Path(__file__).parent / "golden"


def printed(profile: Profile, width: int) -> str:
    file = io.StringIO()
    print_profile(profile, Console(file=file, width=width, force_terminal=False))
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


@pytest.mark.parametrize("kind", ["train", "prefill", "decode"])
def test_it_reads_as_the_golden_does(kind: str) -> None:
    """After a wanted change: WEFTRACE_UPDATE_GOLDENS=1, then read the difference."""
    text, path = printed(made(kind), 80), GOLDEN / f"profile-{kind}-80.txt"
    if os.environ.get("WEFTRACE_UPDATE_GOLDENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_line_is_wider_than_the_console(width: int) -> None:
    for profile in (made("train", num_ranks=3, num_layers=2), made("decode", num_layers=1)):
        assert max(map(len, printed(profile, width).splitlines())) <= width


def test_micro_batches_are_told_apart_without_colours() -> None:
    text = printed(made("prefill"), 100)
    assert "░░ micro-batch 0" in text and "▓▓ micro-batch 1" in text
