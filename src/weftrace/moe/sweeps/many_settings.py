"""Every combination of settings, simulated: which is fastest, and what holds each up?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from math import prod
from typing import Annotated, Any, get_args

from msgspec import Meta

from weftrace.errors import ProfileError, WeftraceError
from weftrace.moe.requests import Request, Routing, profile_of
from weftrace.moe.setting import COMMS
from weftrace.moe.sweeps.summaries import Summary, summary_of
from weftrace.notebook import InNotebook
from weftrace.units import counted

Value = str | int | float
#: More combinations than a person reads or waits for.
MAX_ROWS = 2_000
#: What can be swept, by the option's name: the field of a request, and what its values are.
AXES: dict[str, tuple[str, type[str] | type[int] | type[float]]] = {
    "model": ("model", str), "hardware": ("hardware", str), "ep": ("ep", int),
    "redundant": ("redundant", int), "tokens": ("tokens", int),
    "gpu-tokens": ("gpu_tokens", int), "sequence": ("sequence", int), "comm": ("comm", str),
    "comm-sms": ("comm_sms", int), "overlap": ("overlap", str), "costs": ("costs", str),
    "layers": ("layers", int), "ranks": ("ranks", int), "routing": ("routing", str), "seed": ("seed", int),
    "spread": ("spread", float), "bandwidth-reached": ("bandwidth_reached", float),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One combination: its values by axis, and its numbers, or why it is impossible."""

    values: dict[str, Value]
    summary: Summary | None = None
    reason: Annotated[str, Meta(description="Empty where it is possible.")] = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Sweep(InNotebook):
    """All combinations of some values of a request. axes: name of an option -> its values. rows: in the order of the
    axes, the last one fastest."""

    base: Request
    axes: dict[str, tuple[Value, ...]]
    rows: tuple[Row, ...]

    @property
    def ranked(self) -> list[Row]:
        """Possible ones, most tokens a second first."""
        return sorted((row for row in self.rows if row.summary), key=_slowness)

    @property
    def impossible(self) -> list[Row]:
        return [row for row in self.rows if row.summary is None]

    def headline(self) -> str:
        """The fastest, and what holds it up."""
        ranked = self.ranked
        if not ranked:
            return f"none of {counted(len(self.rows), 'combination')} is possible: {self.rows[0].reason}"
        best, last = ranked[0], ranked[-1]
        assert best.summary is not None and last.summary is not None
        told = f"{named(best)} is fastest: {best.summary.tokens_per_gpu:,.0f} tokens/s a GPU"
        if len(ranked) > 1 and last.summary.tokens_per_gpu:
            times = best.summary.tokens_per_gpu / last.summary.tokens_per_gpu
            told += f", {times:.2f} times as many as {named(last)}" if times >= 1.005 else f", as many as {named(last)}"
        return told + f"; {LIMITS[best.summary.limit]} holds it up"

    def _told(self) -> Iterator[tuple[str, str]]:
        yield "sweep", self.headline()
        yield "combinations", f"{len(self.rows)}, {len(self.impossible)} impossible"


LIMITS = {
    "compute": "computation", "communication": "communication", "fused": "the fused kernel",
    "ranks": "waiting for other ranks",
}  # fmt: skip


def named(row: Row) -> str:
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


def _row(request: Request, values: dict[str, Value]) -> Row:
    try:
        return Row(values=values, summary=summary_of(profile_of(request)))
    except WeftraceError as error:
        return Row(values=values, reason=str(error))


def _value(name: str, value: str, text: str) -> Value:
    kind = AXES[name][1]
    if kind is not str:
        try:
            return kind(value)
        except ValueError as error:
            told = "whole number" if kind is int else "number"
            raise ProfileError(f"sweep {text!r}: {value!r} is no {told}") from error
    known: dict[str, tuple[str, ...]] = {"comm": COMMS, "routing": get_args(Routing)}
    if value not in known.get(name, (value,)):
        raise ProfileError(f"sweep {text!r}: {name} = {value!r}; it is one of {', '.join(known[name])}")
    return value


def _slowness(row: Row) -> float:
    assert row.summary is not None
    return -row.summary.tokens_per_gpu


def told_base(base: Request, axes: Mapping[str, Any]) -> dict[str, str]:
    """What all combinations share, as text: fields that are given and not swept."""
    swept = {AXES[name][0] for name in axes}
    told = {item.name: getattr(base, item.name) for item in fields(base) if item.name not in swept}
    plain = {item.name: item.default for item in fields(base)}
    shown = ("kind", "model", "hardware", "costs")
    return {
        name: str(value)
        for name, value in told.items()
        if value is not None and (name in shown or value != plain[name])
    }
