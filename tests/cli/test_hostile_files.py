"""No file that a command is given ends in a traceback, a signal or silence: it is used, or refused in a sentence.

12 in each run, half of them whole files with a piece changed; `make fuzz-documents` tries 1,200, and
`python -m tests.hostile_files` every file in every place.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from tests.fuzz import DEFAULT_CASES, for_each_case
from tests.hostile_files import NAMES_A_FILE, PLACES, Cases
from weftrace.cli.main import program

#: Parameters that name a model of weftrace's own, or values of options.
OTHERS = {f"{command} --model" for command in ("flops count", "experts balance", "pipeline step")} | {
    f"profile {kind} --sweep" for kind in ("train", "prefill", "decode")
}


@pytest.mark.skipif(sys.platform != "linux", reason="processes are limited as Linux does")
def test_no_file_ends_a_command_badly(warm: Path, tmp_path: Path) -> None:
    cases = Cases(tmp_path, warm / "weftrace")

    def check(seed: str) -> None:
        rng = random.Random(seed)
        place = rng.choice(list(PLACES))
        is_whole = rng.random() < 0.5
        ended = cases.twisted(place, seed) if is_whole else cases.ended(place, rng.choice(list(cases.files)))
        assert not ended.wrong, ended

    for_each_case(check, share=12 / DEFAULT_CASES)


def test_each_place_of_a_command_that_takes_a_file_is_tried() -> None:
    asked = {
        f"{command} {name}"
        for command, parameter in _parameters(get_command(program("")), ())
        if NAMES_A_FILE.search(str(parameter.metavar or "")) and "--output" not in parameter.opts
        for name in parameter.opts[:1]
    }
    assert asked - OTHERS == set(PLACES) - {"report folder"}


def _parameters(command: Any, above: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for name, each in getattr(command, "commands", {}).items():
        yield from _parameters(each, (*above, name))
    if not hasattr(command, "commands"):
        yield from ((" ".join(above), parameter) for parameter in command.params if hasattr(parameter, "metavar"))
