"""One meaning, one colour: the pages' style sheets say what the palette and the alphabet say."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from weftrace import alphabet
from weftrace.render import palette
from weftrace.render.page import KIT, _style

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
    """Pages set what a style sheet says of the choice for a dark system too."""
    chosen, style = blocks(sheet, ':root[data-theme="dark"]'), _style(f"render/{sheet}", KIT)
    system = re.search(r':root:not\(\[data-theme="light"\]\) \{(.*?)\}', style, re.S)
    assert system is not None and dict(_ROLE.findall(system[1])) == chosen
    assert set(chosen) <= set(blocks(sheet, ":root"))


def test_directions_are_those_of_the_alphabet() -> None:
    table = re.search(r"const DIRECTIONS = \{(.*?)\};", STATIC.joinpath("boxes.js").read_text("utf-8"), re.S)
    assert table is not None
    summary = {letter: (role, name) for letter, role, name in re.findall(r'(\w): \["(\w+)", "([\w ]+)"\]', table[1])}
    roles = {"F": "forward", "B": "backward", "W": "weight"}
    assert summary == {
        letter: (roles[drawn], alphabet.DIRECTIONS[letter]) for letter, drawn in alphabet.DRAWN_AS.items()
    }
