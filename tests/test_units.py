"""Numbers as text: one table, tests/units.json, holds for Python and for the pages' JavaScript."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from weftrace import units

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TABLE: list[tuple[str, list[Any], str]] = json.loads(Path(__file__).with_name("units.json").read_text())

#: What the page's functions are called where not as Python's are, in camel case.
IN_JS = {"size": "bytes", "counted": "plural", "tick": "tickLabel"}


def in_unit(time_ns: float, largest_ns: float) -> str:
    unit = units.unit_for(largest_ns)
    return f"{unit(time_ns)} {unit.name}"


def in_one_unit(*times_ns: float) -> str:
    unit = units.unit_for(sum(times_ns))
    return f"{' + '.join(units.adding_up(times_ns, unit))} = {unit(sum(times_ns))} {unit.name}"


MADE_HERE: dict[str, Callable[..., str]] = {"in_unit": in_unit, "in_one_unit": in_one_unit}


@pytest.mark.parametrize(("name", "args", "text"), TABLE, ids=lambda given: json.dumps(given, ensure_ascii=False))
def test_a_number_as_text(name: str, args: list[Any], text: str) -> None:
    assert MADE_HERE.get(name, getattr(units, name, in_unit))(*args) == text


@pytest.mark.parametrize("number", [float("nan"), float("inf"), None])
def test_what_is_no_number_is_a_dash(number: float | None) -> None:
    for said in (units.duration, units.signed_duration, units.si, units.size, units.percent, units.signed):
        assert said(number) == "–"


def test_a_page_says_the_same(browser: Browser) -> None:
    source = files("weftrace.render").joinpath("static", "format.js").read_text("utf-8")
    called = {name: IN_JS.get(name, name[0] + name.title().replace("_", "")[1:]) for name, _, _ in TABLE}
    exported = ", ".join(sorted({*called.values(), "unitFor", "addingUp"} - {"inOneUnit"}))
    page = browser.new_page()
    page.set_content(f'<script type="module">{source}\nwindow.format = {{ {exported} }};</script>')
    said = page.evaluate(
        """(rows) => rows.map(([name, args]) => {
            if (name !== "inUnit" && name !== "inOneUnit") return format[name](...args);
            const sum = name === "inUnit" ? args[1] : args.reduce((a, b) => a + b, 0);
            const unit = format.unitFor(sum);
            if (name === "inUnit") return `${format.inUnit(args[0], unit)} ${unit.name}`;
            return `${format.addingUp(args, unit).join(" + ")} = ${format.inUnit(sum, unit)} ${unit.name}`;
        })""",
        [(called[name], args) for name, args, _ in TABLE],
    )
    assert said == [text for _, _, text in TABLE]
    assert page.evaluate("[format.duration(NaN), format.si(Infinity), format.percent(undefined)]") == ["–"] * 3
    page.close()


@pytest.mark.parametrize(
    ("words", "text"),
    [((), ""), ((7,), "7"), ("ab", "a and b"), ("abc", "a, b and c"), ("abcde", "a, b, c and 2 more")],
)
def test_words_are_listed_as_a_sentence_says_them(words: tuple[object, ...] | str, text: str) -> None:
    assert units.listed(words, most=3) == text
