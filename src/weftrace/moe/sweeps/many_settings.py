"""Every combination of settings, simulated: which is fastest, and what holds each up?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from math import prod
from types import NoneType
from typing import Annotated, Any, get_args, get_type_hints

import polars as pl
import polars.selectors as cs
from msgspec import Meta

from weftrace.errors import ProfileError, WeftraceError
from weftrace.files.values import to_document
from weftrace.moe.requested import profile_of
from weftrace.moe.requests import Request
from weftrace.moe.sweeps.summaries import Summary, summary_of
from weftrace.notebook import InNotebook
from weftrace.units import counted

Value = str | int | float
#: More combinations than a person reads or waits for.
MAX_ROWS = 2_000
#: What can be swept, by the option's name: the field of a request, and what its values are.
AXES: dict[str, tuple[str, Any]] = {
    name.replace("_", "-"): (name, next(each for each in (*get_args(hint), hint) if each is not NoneType))
    for name, hint in get_type_hints(Request).items()
    if name not in ("kind", "tokens_per_request", "loads", "contention")
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRow:
    """One combination: its values by axis, and its numbers, or why it is impossible."""

    values: dict[str, Value]
    summary: Summary | None = None
    reason: Annotated[str, Meta(description="Empty where it is possible.")] = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Sweep(InNotebook):
    """Every combination of some settings."""

    base: Request
    axes: Annotated[dict[str, tuple[Value, ...]], Meta(description="Option -> its values.")]
    rows: Annotated[tuple[SweepRow, ...], Meta(description="In the order of the axes, the last one fastest.")]

    def __post_init__(self) -> None:
        if not self.axes or not self.rows or any(row.values.keys() != self.axes.keys() for row in self.rows):
            raise ValueError("`rows` holds combinations of other options than `axes`")

    @property
    def shared(self) -> Annotated[dict[str, str], Meta(description="What all have in common, as text.")]:
        return shared_words(self.base, self.axes)

    @property
    def ranked(self) -> list[SweepRow]:
        """Possible ones, most tokens a second first."""
        return sorted((row for row in self.rows if row.summary), key=_slowness)

    @property
    def impossible(self) -> list[SweepRow]:
        return [row for row in self.rows if row.summary is None]

    @property
    def headline(self) -> Annotated[str, Meta(description="The fastest, and what holds it up.")]:
        ranked = self.ranked
        if not ranked:
            return f"none of {counted(len(self.rows), 'combination')} is possible: {self.rows[0].reason}"
        best, last = ranked[0], ranked[-1]
        assert best.summary is not None and last.summary is not None
        text = f"{named(best)} is fastest: {best.summary.tokens_per_gpu:,.0f} tokens/s a GPU"
        if len(ranked) > 1 and last.summary.tokens_per_gpu:
            times = best.summary.tokens_per_gpu / last.summary.tokens_per_gpu
            text += f", {times:.2f} times as many as {named(last)}" if times >= 1.005 else f", as many as {named(last)}"
        return text + f"; {LIMITS[best.summary.limit]} holds it up"

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "sweep", self.headline
        yield "combinations", f"{len(self.rows)}, {len(self.impossible)} impossible"


LIMITS = {
    "compute": "computation", "communication": "communication", "fused": "the fused kernel",
    "ranks": "waiting for other ranks",
}  # fmt: skip


def named(row: SweepRow) -> str:
    """ "ep=32, overlap=none"."""
    return ", ".join(f"{name}={value}" for name, value in row.values.items())


def parse_axes(texts: Sequence[str]) -> dict[str, tuple[Value, ...]]:
    """ "ep=8,16" -> {"ep": (8, 16)}. Raises `ProfileError` for an axis or a value that there is none of."""
    axes: dict[str, tuple[Value, ...]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        name = name.strip().removeprefix("--")
        given = [value.strip() for value in values.split(",") if value.strip()]
        if not equals or not given or name not in AXES:
            raise ProfileError(f"sweep {text!r}: write it like ep=8,16,32; what can be swept is {', '.join(AXES)}")
        if name in axes:
            raise ProfileError(f"sweep {text!r}: {name} is swept twice; list all its values at once")
        axes[name] = tuple(dict.fromkeys(_value(name, value, text) for value in given))
    return axes


def sweep(
    base: Request,
    axes: Mapping[str, Sequence[Value]],
    *,
    on_progress: Callable[[int, int], object] = lambda done, total: None,
) -> Sweep:
    """Every combination of the values, simulated one after another; what is impossible says why.

    axes: name of one of `AXES` -> values. Raises `ProfileError` for none, an unknown one, and over `MAX_ROWS` rows.
    """
    if unknown := [name for name in axes if name not in AXES]:
        raise ProfileError(f"cannot sweep {unknown[0]!r}; what can be swept is {', '.join(AXES)}")
    number = prod(len(values) for values in axes.values())
    if not axes or not 1 <= number <= MAX_ROWS:
        raise ProfileError(f"a sweep of {number:,} combinations; it has 1 to {MAX_ROWS:,}, of one axis at least")
    rows = []
    for values in product(*axes.values()):
        row = dict(zip(axes, values, strict=True))
        given: dict[str, Any] = {AXES[name][0]: value for name, value in row.items()}
        rows.append(_row(replace(base, **given), row))
        on_progress(len(rows), number)
    return Sweep(base=base, axes={name: tuple(values) for name, values in axes.items()}, rows=tuple(rows))


def _row(request: Request, values: dict[str, Value]) -> SweepRow:
    try:
        return SweepRow(values=values, summary=summary_of(profile_of(request)))
    except WeftraceError as error:
        return SweepRow(values=values, reason=str(error))


def _value(name: str, value: str, text: str) -> Value:
    kind = AXES[name][1]
    if known := get_args(kind):
        if value not in known:
            raise ProfileError(f"sweep {text!r}: {name} = {value!r}; it is one of {', '.join(known)}")
        return value
    try:
        found: Value = kind(value)
    except ValueError as error:
        what = "whole number" if kind is int else "number"
        raise ProfileError(f"sweep {text!r}: {value!r} is no {what}") from error
    return found


def _slowness(row: SweepRow) -> float:
    assert row.summary is not None
    return -row.summary.tokens_per_gpu


def shared_words(base: Request, axes: Iterable[str]) -> dict[str, str]:
    """What all combinations share, as text: fields that are given and not swept."""
    swept = {AXES[name][0] for name in axes}
    given = {item.name: getattr(base, item.name) for item in fields(base) if item.name not in swept}
    plain = {item.name: item.default for item in fields(base)}
    shown = ("kind", "model", "hardware", "costs")
    return {
        name: str(value)
        for name, value in given.items()
        if value is not None and (name in shown or value != plain[name])
    }


def sweep_table(sweep: Sweep) -> pl.DataFrame:
    """One row per combination: its values, its numbers, why it is impossible."""
    rows = [{**row.values, **to_document(row.summary or {}), "reason": row.reason} for row in sweep.rows]
    return pl.DataFrame(rows, infer_schema_length=None).with_columns(cs.list().cast(pl.List(pl.String)).list.join("; "))
