"""Regexes for ASCII find in ASCII text what the regexes that they stand for do."""

from __future__ import annotations

import re

import polars as pl
import pytest

from weftrace.analysis.efficiency.precision import precision_of
from weftrace.trace.ascii_patterns import ascii_pattern, is_ascii
from weftrace.trace.kernels import classify, load_rules

EVERY = "".join(map(chr, range(128)))
TEXTS = pl.Series([*EVERY, EVERY, EVERY[::-1], "a_b9::c<int>", "9", "__", "ab cd", ""])


@pytest.mark.parametrize(
    "pattern",
    [
        r"\w", r"\W", r"\d+", r"\ba", r"a\b", r"[\w:]+", r"[^\w]", r"[^\d_]+", r"\\w", r"\[\w\]", r"[\]\w]",
        r"(?i)\w+\.", r"^[a-z\d]*$", r"(\w)\W(\d)?", r"[[a-c]\d]\w", r"\.\w{2,}",
    ],
)  # fmt: skip
def test_it_finds_the_same(pattern: str) -> None:
    mine, theirs = (TEXTS.str.extract_all(each).to_list() for each in (ascii_pattern(pattern), pattern))
    assert mine == theirs


def test_our_rules_find_the_same_in_all_that_their_sources_spell() -> None:
    rules = load_rules().rules
    words = pl.Series([word for rule in rules for word in re.split(r"[,; ]+", rule.source)]).unique()
    words = words.filter(words.str.len_bytes() == words.str.len_chars())
    for rule in rules:
        mine, theirs = (words.str.contains(each).to_list() for each in (ascii_pattern(rule.match), rule.match))
        assert mine == theirs, rule.name


def test_names_that_are_not_ascii_are_matched_as_before() -> None:
    names = pl.Series(
        ["triton_poi_größe_elementwise_kernel", "nvjet_größe_tf32", "at::native::größe_elementwise_kernel<4>"]
    )
    assert not is_ascii(names)
    assert classify(names, load_rules()).get_column("kind").to_list() == ["compute"] * 3
    assert precision_of(names[1]).dtype == "tf32"
    assert precision_of(names[2]).tensor_cores is False
