"""Pages hold much in little: columns, rows and long blocks come out of them as they went in."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.browser import Open
from tests.fuzz import examples
from tests.pages import numbers_of, rows_of
from weftrace.render.packed import packed, packed_block, packed_rows

SOURCE = files("weftrace.render").joinpath("static", "packed.js").read_text("utf-8")
READ = """{};
window.weftrace = {{ unpacked: (column) => Array.from(unpacked(column)), blockOf, rowsOf }};
performance.mark("weftrace-first-paint");""".format(SOURCE.replace("export function", "function"))

COLUMNS = {
    "few": np.arange(5),
    "bytes": np.arange(4_000) % 251,
    "steps": np.arange(4_000) * 1_000 + np.arange(4_000) % 7,
    "apart": np.array([0, 1 << 31, (1 << 32) - 1, 3] * 300),
    "wide": np.array([(1 << 53) - 1, 0, 1 << 40, (1 << 32) + 5] * 300),
    "noise": np.random.default_rng(1).integers(0, 1 << 32, 30_000),
    "one value": np.full(100_000, 7),
}


@pytest.fixture
def read(open_html: Open) -> Callable[[str, Any], Any]:
    page = open_html(f"<script>{READ}</script>")
    return lambda name, value: page.evaluate(f"(value) => window.weftrace.{name}(value)", value)


def test_columns_are_the_same_numbers_in_a_browser(read: Callable[[str, Any], Any]) -> None:
    for name, column in COLUMNS.items():
        assert read("unpacked", packed(column)) == column.tolist() == numbers_of(packed(column)).tolist(), name


def test_blocks_of_any_kind_are_inflated(read: Callable[[str, Any], Any]) -> None:
    """Stored, with fixed codes and with codes of their own: what zlib chooses for noise, for little and for text."""
    noise = np.random.default_rng(2).integers(0, 64, 90_000)
    for text in ("short", "ab" * 40_000, "".join(chr(48 + each) for each in noise), "one word after another " * 9_000):
        assert read("blockOf", packed_block({"text": text, "é": [None, 0.5]})) == {"text": text, "é": [None, 0.5]}


def test_rows_are_the_same_in_a_browser(read: Callable[[str, Any], Any]) -> None:
    rows = [
        {"name": f"k{at % 7}", "one": 1, "start_ns": at * 977 - 5_000, "sms": None if at % 3 else at}
        for at in range(200)
    ]
    value = {
        "rows": rows,
        "busy": [[at, at + 5, 5] for at in range(0, 900, 9)],
        "inner": [{"busy": [[1, 2, 1]] * 70}] * 3,
    }
    held = packed_rows(value)
    assert "numbers" in held["rows"]["row_columns"][2] and set(held["busy"]) == {"row_columns"}
    assert read("rowsOf", held) == value == rows_of(json.loads(json.dumps(held)))


@settings(max_examples=examples(100))
@given(
    st.lists(st.lists(st.one_of(st.integers(-(1 << 60), 1 << 60), st.booleans(), st.none()), max_size=3), max_size=80)
)
def test_lists_of_anything_come_back(value: list[Any]) -> None:
    whole = value * 30
    assert json.dumps(rows_of(json.loads(json.dumps(packed_rows(whole))))) == json.dumps(whole)
