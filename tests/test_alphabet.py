"""The alphabet of steps: how directions are read from names, and that pictures have one look for each."""

from __future__ import annotations

import pytest

from weftrace.alphabet import DIRECTIONS, DRAWN, DRAWN_AS, direction_of, stem_of
from weftrace.render import palette


@pytest.mark.parametrize(
    ("name", "direction"),
    [("attn(F)", "F"), ("mlp (W)", "W"), ("dispatch[B]", "B"), ("stage_F", "F"), ("input(I)", "B"), ("forward", "F"),
     ("layer3.backward", "B"), ("fwd_pass", "F"), ("bwd", "B"), ("forward_backward", None), ("attn", None),
     ("UMF", None), ("", None), ("(F)", "F"), ("F", None)],
)  # fmt: skip
def test_direction_of_a_name(name: str, direction: str | None) -> None:
    assert direction_of(name) == direction


@pytest.mark.parametrize(
    ("name", "parts"),
    [("attn(F)", ("attn", "F")), ("a(b)(W)", ("a(b)", "W")), ("attn", ("attn", "")), ("(F)", ("(F)", ""))],
)
def test_stem_of_a_name(name: str, parts: tuple[str, str]) -> None:
    assert stem_of(name) == parts


def test_what_is_drawn_has_a_name_and_a_colour() -> None:
    assert DRAWN == ("F", "B", "W")
    assert set(DRAWN_AS) <= set(DIRECTIONS)
    assert list(palette.DIRECTION_COLOURS) == list(DRAWN)
