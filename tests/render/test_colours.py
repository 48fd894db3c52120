"""One meaning, one colour: the pages' style sheets say what the palette and the alphabet say."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from weftrace import alphabet
from weftrace.render import palette

STATIC = files("weftrace.render").joinpath("static")
SHEETS = ("page.css", "charts.css")
#: Names of the palette whose role has another name in the style sheets.
ROLES = {"AFTER": "good-fill"}
#: Text on colours, which pages choose by contrast.
INKS = {"INK", "PAPER"}
_ROLE = re.compile(r"--([\w-]+): (#[0-9a-f]{6})")


def blocks(sheet: str, selector: str) -> dict[str, str]:
    """Role -> colour, of a rule in a style sheet."""
    found = re.search(rf"^ *{re.escape(selector)} \{{(.*?)\}}", STATIC.joinpath(sheet).read_text("utf-8"), re.M | re.S)
    assert found is not None
    return dict(_ROLE.findall(found[1]))


def test_pages_have_the_colours_of_terminal_and_figures() -> None:
    light = {role: colour for sheet in SHEETS for role, colour in blocks(sheet, ":root").items()}
    named = {name: value for name, value in vars(palette).items() if name.isupper() and isinstance(value, str)}
    assert len(named) > 12
    for name, colour in named.items():
        if name not in INKS:
            assert light[ROLES.get(name, name.lower())] == colour, name


@pytest.mark.parametrize("sheet", SHEETS)
def test_the_dark_theme_is_the_same_by_choice_and_by_system(sheet: str) -> None:
    chosen, system = blocks(sheet, ':root[data-theme="dark"]'), blocks(sheet, ':root:not([data-theme="light"])')
    assert chosen == system
    assert set(chosen) <= set(blocks(sheet, ":root"))


def test_every_colour_of_canvases_is_in_a_style_sheet() -> None:
    listed = re.search(r"const ROLES = \[(.*?)\];", STATIC.joinpath("theme.js").read_text("utf-8"), re.S)
    assert listed is not None
    light = {role for sheet in SHEETS for role in blocks(sheet, ":root")}
    assert set(re.findall(r'"([\w-]+)"', listed[1])) <= light


def test_directions_are_those_of_the_alphabet() -> None:
    table = re.search(r"const DIRECTIONS = \{(.*?)\};", STATIC.joinpath("boxes.js").read_text("utf-8"), re.S)
    assert table is not None
    summary = {letter: (role, name) for letter, role, name in re.findall(r'(\w): \["(\w+)", "([\w ]+)"\]', table[1])}
    roles = {"F": "forward", "B": "backward", "W": "weight"}
    assert summary == {
        letter: (roles[drawn], alphabet.DIRECTIONS[letter]) for letter, drawn in alphabet.DRAWN_AS.items()
    }
