"""What pages and terminal reports of all wings are put together from."""

from __future__ import annotations

import io
import json

from rich.console import Console
from rich.text import Text

from weftrace.render.console_parts import print_blocks, table
from weftrace.render.page import short_numbers


def test_floats_are_cut_and_the_rest_stays() -> None:
    value = {"a": [1.23456789, 2.0, 1e20, 123456789.0], "b": (12345678, "1.23456789", None, True), "c": -0.00012345678}
    short = short_numbers(value, 4)
    assert short == {"a": [1.235, 2, 1e20, 123500000], "b": [12345678, "1.23456789", None, True], "c": -0.0001235}
    assert json.dumps(short["a"]) == "[1.235, 2, 1e+20, 123500000]"


def test_blocks_are_an_empty_line_apart() -> None:
    file = io.StringIO()
    print_blocks([Text("one"), Text("two")], Console(file=file, width=20, color_system=None), 20)
    assert [line.rstrip() for line in file.getvalue().splitlines()] == ["one", "", "two"]


def test_a_table_whose_first_column_is_narrow_uses_the_whole_width() -> None:
    heads, lines = ["ep", "tokens/s", "layer ms"], [["32", "7,572", "35.47"], ["8", "7,445", "36.08"]]
    for width, num_heads in ((22, 1), (21, 2)):  # 2 + 2 + 8 + 2 + 8 characters; below that a column moves below
        file = io.StringIO()
        Console(file=file, width=width, color_system=None).print(table(heads, lines, width, left=["ep"]))
        assert sum(line.startswith("ep") for line in file.getvalue().splitlines()) == num_heads
