"""Which framework made a trace: by the names that it writes, which frameworks.toml lists with their sources."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import polars as pl

from weftrace.advice.findings.rule_texts import FRAMEWORKS, Framework
from weftrace.errors import RulesError
from weftrace.facts.tables import read_tables
from weftrace.trace.model import Trace, is_annotation

SIGNS = Path(__file__).with_name("frameworks.toml")

Place = Literal["annotation", "operator", "frame", "kernel", "fact"]
_CATEGORIES = {"operator": "cpu_op", "kernel": "kernel", "frame": "python_function"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFramework:
    """A framework that a trace shows. place, evidence: the name that shows it, and what that is the name of."""

    framework: Framework
    place: Place
    evidence: str


class _Sign(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"place": "in"}):
    place: Place
    match: Annotated[str, msgspec.Meta(min_length=1)]
    source: Annotated[str, msgspec.Meta(min_length=1)]


class _Signs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Framework
    signs: Annotated[tuple[_Sign, ...], msgspec.Meta(min_length=1)]


def frameworks_of(trace: Trace) -> tuple[str, ...]:
    """What the trace shows, the most specific first; "pytorch" is always last."""
    return (*(shown.framework for shown in shown_frameworks(trace)), "pytorch")


def shown_frameworks(trace: Trace) -> tuple[ShownFramework, ...]:
    """Every framework that the trace shows beside PyTorch, the most specific first, each with its evidence."""
    names = {place: _names(trace, place) for place in Place.__args__}  # type: ignore[attr-defined]
    found = (_shown(signs, names) for signs in _signs())
    return tuple(sorted((each for each in found if each), key=lambda each: FRAMEWORKS.index(each.framework)))


def _shown(signs: _Signs, names: dict[Place, pl.Series]) -> ShownFramework | None:
    for sign in signs.signs:
        matching = names[sign.place].filter(names[sign.place].str.contains(sign.match))
        if not matching.is_empty():
            return ShownFramework(framework=signs.name, place=sign.place, evidence=str(matching.min()))
    return None


def _names(trace: Trace, place: Place) -> pl.Series:
    """Each name once; of Python with slashes between folders."""
    if place == "fact":
        return pl.Series([f"{name}={value}" for name, value in trace.info.items()], dtype=pl.String)
    is_there = is_annotation() if place == "annotation" else pl.col("cat") == _CATEGORIES[place]
    names = trace.events.select("name", "cat").filter(is_there).get_column("name").unique().cast(pl.String)
    if place == "frame":
        if trace.frames is not None:
            names = pl.concat([names, trace.frames.get_column("name").unique().cast(pl.String)]).unique()
        names = names.str.replace_all("\\", "/", literal=True)
    return names


@cache
def _signs() -> tuple[_Signs, ...]:
    return msgspec.convert(
        read_tables(SIGNS, "framework", what="signs of frameworks", error=RulesError), tuple[_Signs, ...]
    )
