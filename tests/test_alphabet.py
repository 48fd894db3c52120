"""The alphabet of steps: how directions are read from names, and that pictures have one look for each."""

from __future__ import annotations

import pytest

from weftrace.alphabet import DIRECTIONS, DRAWN, DRAWN_AS, direction_of, numbers_in, phase_name, stem_of
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


@pytest.mark.parametrize(
    ("phase", "numbers", "name"),
    [("attn(F)", {"layer": 3, "micro_batch": 1}, "attn(F) {layer=3, micro_batch=1}"),
     ("MLP", {"micro_batch": 0}, "MLP {micro_batch=0}"), ("MLP", {"layer": 60, "chunk": 2}, "MLP {layer=60, chunk=2}"),
     ("MLP", {}, "MLP"), ("a {b}", {"layer": 0}, "a {b} {layer=0}")],
)  # fmt: skip
def test_a_ranges_name_tells_its_phase_and_numbers_again(phase: str, numbers: dict[str, int], name: str) -> None:
    assert phase_name(phase, **numbers) == name
    assert numbers_in(name) == (phase, numbers)


def test_numbers_that_are_none_are_not_written() -> None:
    assert phase_name("attn(F)", layer=None, micro_batch=1) == "attn(F) {micro_batch=1}"


@pytest.mark.parametrize(
    "name",
    ["attn(F)", "", "{layer=3}", " {layer=3}", "attn{layer=3}", "attn {layer}", "attn {layer=x}", "attn {layer=-1}",
     "attn {layer=3} ", "attn {layer=3} more", "attn {layer=3,micro_batch=1}", "attn {Layer=3}", "attn {layer=1e3}",
     "attn {layer=12345678901}", "run {batch=32}", "run {batch=32, layer=1}", "attn {layer=3", "attn {layer=3}\n"],
)  # fmt: skip
def test_other_names_have_no_numbers(name: str) -> None:
    assert numbers_in(name) == (name, {})


def test_direction_and_stem_are_those_of_the_phase() -> None:
    assert direction_of("attn(F) {layer=3, micro_batch=1}") == "F"
    assert stem_of("attn(W) {layer=3}") == ("attn", "W")
