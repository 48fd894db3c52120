"""Gates: by how much may a figure change? What `weftrace diff --fail-above` and `--fail-below` hold it to."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fractions import Fraction
from typing import Annotated, Literal, TypedDict

import numpy as np
import polars as pl
from msgspec import Meta
from numpy.typing import NDArray

from weftrace.analysis.idle_causes import CAUSES, TOLD_APART
from weftrace.analysis.time_owners import PARTS
from weftrace.comparison.diffs import Diff
from weftrace.comparison.noise import are_noise
from weftrace.comparison.runs import WAITING
from weftrace.comparison.sides import Side
from weftrace.errors import ComparisonError
from weftrace.trace.kernels import ROLES
from weftrace.units import MS, US, S, duration, percent

_FINE = 1e6  # shares and numbers are asked about in millionths, where times are in ns

Steps = NDArray[np.float64]
Unit = Literal["ns", "share", "number"]
Direction = Literal["above", "below"]

IsNoise = Annotated[
    bool | None,
    Meta(description="Whether it is within the difference of steps of one run; null: one step cannot show it."),
]


class GateRow(TypedDict):
    """A limit that was asked for, and whether it was met."""

    figure: Annotated[str, Meta(description="As it was written: `exposed`, `family:gemm`.")]
    direction: Annotated[Direction, Meta(description="On which side of the limit it fails.")]
    limit: Annotated[str, Meta(description="The most that it may change, as it was written: 5%, 300us.")]
    unit: Annotated[Unit, Meta(description="What before and after are in.")]
    before: Annotated[float | None, Meta(description="Null where it is undefined.")]
    after: float | None
    is_noise: IsNoise
    is_met: Annotated[bool | None, Meta(description="Null where the runs are not comparable: gates are not judged.")]
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number of a step that may be held to a limit.

    name: what stands before the colon, if any. takes: what stands behind it: NAME, say. measured: of a side and of
    the names that stand there, the number in each step that counts, mean over ranks: [steps]. known: names that may;
    causes and roles may where a side has no time of them, which is 0. is_aligned: both runs may spell them otherwise.
    typical: of the steps' numbers, the one that is compared.
    """

    name: str
    measured: Callable[[Side, Sequence[str]], Steps]
    takes: str = ""
    is_aligned: bool = False
    unit: Unit = "ns"
    known: Callable[[Side], set[str]] = lambda side: set()
    typical: Callable[[Steps], float] = lambda steps: float(np.mean(steps))

    @property
    def form(self) -> str:
        return f"{self.name}:{self.takes}" if self.takes else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A limit of a figure. what: behind the figure's colon. text: the limit as it was written. by: it, as a part of
    the figure before (is_part), else in the figure's unit."""

    figure: Figure
    what: str
    direction: Direction
    text: str
    by: Fraction
    is_part: bool

    @property
    def name(self) -> str:
        return f"{self.figure.name}:{self.what}" if self.figure.takes else self.figure.name


def parse_gate(text: str, direction: Direction) -> Gate:
    """ "exposed=5%", "family:gemm=300us", "launches=10". Raises `ComparisonError` for what means nothing."""
    named, equals, limit = text.rpartition("=")
    if not equals or not named.strip():
        raise ComparisonError(f"{text!r} is no gate: write NAME=LIMIT, such as exposed=5% or idle=300us.")
    name, colon, what = named.strip().partition(":")
    figure = _figure(name.strip(), what, has_colon=bool(colon))
    by, is_part = _limit(limit.strip(), figure.unit)
    return Gate(figure=figure, what=what, direction=direction, text=limit.strip(), by=by, is_part=is_part)


def judged(diff: Diff, gates: Sequence[Gate], *, beyond_noise: bool = False) -> list[GateRow]:
    """Each gate with its figure on both sides, and whether it is met.

    beyond_noise: a change that is within the noise is none. Of runs that are not comparable nothing is judged. Raises
    `ComparisonError` where a gate names what neither run has, with the nearest name.
    """
    if diff.verdict.word == "not comparable":
        return [_row(gate, f"{gate.name}: not judged, the runs are not comparable") for gate in gates]
    named = [_named(diff, gate) for gate in gates]
    steps = [
        tuple(gate.figure.measured(side, names) for side in (diff.before, diff.after))
        for gate, names in zip(gates, named, strict=True)
    ]
    noise = _noise([gate.figure.unit for gate in gates], steps)
    return [
        _judged(gate, before, after, is_noise=within, beyond_noise=beyond_noise)
        for gate, (before, after), within in zip(gates, steps, noise, strict=True)
    ]


def _noise(units: Sequence[Unit], steps: Sequence[tuple[Steps, ...]]) -> list[bool | None]:
    """Of each figure whether its change is within the noise, asked of all gates at once; None where nothing tells."""
    found: list[bool | None] = [None] * len(steps)
    summary = [at for at, sides in enumerate(steps) if not any(np.isnan(side).any() for side in sides)]
    if not summary:
        return found
    scales = [_FINE if units[at] != "ns" else 1.0 for at in summary]
    values = [np.stack([scale * steps[at][side] for at, scale in zip(summary, scales, strict=True)]) for side in (0, 1)]
    within = are_noise(*values)
    for place, at in enumerate(summary):
        found[at] = None if within is None else bool(within[place])
    return found


def _judged(gate: Gate, one: Steps, other: Steps, *, is_noise: bool | None, beyond_noise: bool) -> GateRow:
    before, after = (_typical(gate.figure, each) for each in (one, other))
    fits = _is_within(gate, before, after)
    sentence = _sentence(gate, before, after, is_noise, is_met=fits)
    return _row(gate, sentence, before, after, is_noise, fits or (beyond_noise and is_noise is True))


def _row(
    gate: Gate, sentence: str, before: float | None = None, after: float | None = None, is_noise: IsNoise = None,
    is_met: bool | None = None,
) -> GateRow:  # fmt: skip
    return {
        "figure": gate.name, "direction": gate.direction, "limit": gate.text, "unit": gate.figure.unit,
        "before": before, "after": after, "is_noise": is_noise, "is_met": is_met, "sentence": sentence,
    }  # fmt: skip


def _typical(figure: Figure, steps: Steps) -> float | None:
    """Whole ns, so that a limit is met to the nanosecond; None where a share has no whole."""
    if np.isnan(steps).any():
        return None
    value = figure.typical(steps)
    return float(round(value)) if figure.unit == "ns" else value


def _is_within(gate: Gate, before: float | None, after: float | None) -> bool:
    if before is None or after is None:
        return before is after
    rise = Fraction(after) - Fraction(before)
    if gate.figure.unit == "share":
        rise = rise.limit_denominator(10**9)  # 0.6 - 0.2 is 0.4
    allowed = gate.by * Fraction(before) if gate.is_part else gate.by
    return (rise if gate.direction == "above" else -rise) <= allowed


def _sentence(gate: Gate, before: float | None, after: float | None, noise: bool | None, *, is_met: bool) -> str:
    unit = gate.figure.unit
    said = f"{gate.name}: {figure_text(before, unit)} → {figure_text(after, unit)}"
    if before is None or after is None:
        return f"{said}: a share of nothing; nothing can be said of its change"
    is_points = unit == "share"
    by = f"{gate.text.removesuffix('%').strip()} points" if is_points else _limit_text(gate)
    allowed = f"it may {'rise' if gate.direction == 'above' else 'fall'} by {by}"
    if gate.is_part and not before and not is_met:
        changed = "new, which no percentage of 0 allows"
    else:
        changed = change_text(before, after, unit, is_part=gate.is_part)
    noise_summary = "" if noise is False or before == after else "; noise is not known: one step"
    return f"{said}, {changed}; {allowed}{'; within the noise' if noise and before != after else noise_summary}"


def _limit_text(gate: Gate) -> str:
    if gate.is_part:
        return f"{gate.text.removesuffix('%').strip()} %"
    return figure_text(float(gate.by), gate.figure.unit)


def figure_text(value: float | None, unit: Unit) -> str:
    """A figure for a person: "80.0 µs", "20.0 %", "5"."""
    if value is None:
        return "undefined"
    return duration(value) if unit == "ns" else percent(value) if unit == "share" else f"{value:,.6g}"


def change_text(before: float, after: float, unit: Unit, *, is_part: bool = True) -> str:
    """Its change: "+30.0 %" of what it was, "−40.0 µs"; of a share "+40.0 points"."""
    change = after - before
    sign = "+" if change > 0 else "−" if change < 0 else "±"
    if unit == "share":
        return f"{sign}{abs(100 * change):.1f} points"
    if is_part and (before or not change):
        return f"{sign}{percent(abs(change / before) if before else 0.0)}"
    return f"{sign}{figure_text(abs(change), unit)}"


# From text to a figure and a limit


def _figure(name: str, what: str, *, has_colon: bool) -> Figure:
    """The figure of that name, which takes something behind a colon or does not."""
    of_name = [figure for figure in FIGURES if figure.name == name]
    if not of_name:
        near = get_close_matches(name.lower(), {figure.name for figure in FIGURES}, n=1, cutoff=0.5)
        summary = f" Did you mean {near[0]}?" if near else ""
        raise ComparisonError(
            f"there is no figure {name!r}.{summary} There are {', '.join(figure.form for figure in FIGURES)}."
        )
    fitting = [figure for figure in of_name if bool(figure.takes) == has_colon]
    if not fitting:
        form = of_name[0].form
        takes = f"write {form}" if of_name[0].takes else f"{name} takes no name behind a colon"
        raise ComparisonError(f"{name}: {takes}." if of_name[0].takes else f"{takes}.")
    (figure,) = fitting
    if has_colon and not what:
        raise ComparisonError(f"{name}: names nothing; write {figure.form}.")
    if name == "rank" and not what.isdecimal():
        raise ComparisonError(f"rank:{what}: {what!r} is no rank.")
    if name == "kernel":
        _check_pattern(what)
    return figure


def _check_pattern(pattern: str) -> None:
    try:
        pl.select(pl.lit("").str.contains(pattern))
    except pl.exceptions.ComputeError as error:
        raise ComparisonError(
            f"kernel:{pattern}: {pattern!r} is no regular expression (look-around is not known)."
        ) from error


_TIMES: Mapping[str, int] = {"ns": 1, "us": US, "µs": US, "μs": US, "ms": MS, "s": S}  # µ may be one of two letters
_WRITTEN: Mapping[Unit, tuple[str, str]] = {
    "ns": ("a time", "5% or 300us"),
    "number": ("a number", "5% or 10"),
    "share": ("a share", "2%, which is two points"),
}


def _limit(text: str, unit: Unit) -> tuple[Fraction, bool]:
    """A limit, and whether it is a part of the figure before. Of a share, % are points."""
    match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*(%|[nuµμm]?s|)", text)
    what, examples = _WRITTEN[unit]
    if match is None:
        raise ComparisonError(f"{text!r} is not a limit: write {examples}.")
    size, ending = Fraction(match[1]), match[2]
    if ending == "%":
        return size / 100, unit != "share"
    if (unit == "ns" and ending) or (unit == "number" and not ending):
        return size * _TIMES.get(ending, 1), False
    raise ComparisonError(f"{text!r} is not a limit for {what}: write {examples}.")


def _named(diff: Diff, gate: Gate) -> list[str]:
    """What stands behind a gate's colon: names as both runs are aligned by. Raises where neither run has any."""
    figure, sides = gate.figure, (diff.before, diff.after)
    own = {name: name for side in sides for name in sorted(figure.known(side))}
    if figure.name == "lateness" and not own:
        raise ComparisonError("lateness: needs a job of several ranks with matched collectives.")
    if not figure.takes:
        return []
    if figure.is_aligned:  # each run's own spelling is as good
        own |= {name: both.name for both in diff.alignment.of(figure.name) for name in (*both.before, *both.after)}
    spelled = pl.Series(list(own), dtype=pl.String)
    fits = spelled.str.contains(gate.what) if figure.name == "kernel" else spelled == gate.what
    if found := list(dict.fromkeys(own[name] for name in spelled.filter(fits))):
        return found
    if figure.name == "kernel":
        raise ComparisonError(f"{gate.name}: it fits no kernel of either run.")
    if figure.name == "rank":
        raise ComparisonError(f"{gate.name}: not in both runs, which have rank {', '.join(sorted(own, key=int))}.")
    near = get_close_matches(gate.what, own, n=3, cutoff=0.4)
    summary = f" Did you mean {' or '.join(f'{figure.name}:{each}' for each in near)}?" if near else ""
    raise ComparisonError(f"{gate.name}: not found in either run.{summary}")


# From a side to the number in each of its steps


def _sum(column: str, rows: Callable[[Sequence[str]], pl.Expr]) -> Callable[[Side, Sequence[str]], Steps]:
    return lambda side, names: _in_steps(side, rows(names), column)


def _in_steps(side: Side, rows: pl.Expr, column: str) -> Steps:
    return replace(side, shares=side.shares.filter(rows)).per_step((), column).to_numpy().reshape(-1)


def _names(column: str, rows: pl.Expr) -> Callable[[Side], set[str]]:
    return lambda side: set(side.shares.filter(rows).get_column(column).drop_nulls().cast(pl.String).unique())


def _hidden(side: Side, _: Sequence[str]) -> Steps:
    union = _in_steps(side, _IS_COMMUNICATION, "union_ns")
    own = _in_steps(side, _IS_COMMUNICATION, "own_ns")
    shares: Steps = np.divide(union - own, union, out=np.full(len(union), np.nan), where=union > 0)
    return shares


def _of_rank(side: Side, names: Sequence[str]) -> Steps:
    """The length of each step of one rank, mean over its devices."""
    at = [at for at, rank in enumerate(side.ranks) if str(rank.rank) in names]
    own = replace(side, ranks=tuple(side.ranks[each] for each in at), shares=side.shares.filter(pl.col("at").is_in(at)))
    return own.spans_ns


def _median(steps: Steps) -> float:
    return float(np.median(steps))


def _part(part: str) -> Callable[[Sequence[str]], pl.Expr]:
    return lambda causes: pl.col("part").eq(part) & (pl.col("cause").is_in(causes) if causes else pl.lit(True))


def _of(label: str) -> Figure:
    """Durations of the work that bears one of the names."""
    return Figure(
        name=label,
        takes="REGEX" if label == "kernel" else "NAME",
        is_aligned=True,
        measured=_sum("raw_ns", lambda names: _IS_WORK & pl.col(label).cast(pl.String).is_in(names)),
        known=_names(label, _IS_WORK),
    )


_IS_WORK = pl.col("part") != "idle"  # a gap bears the labels of the kernel that ends it
_IS_LAUNCHED = _IS_WORK & (pl.col("part") != WAITING)  # whose number is that of waits
_IS_COMMUNICATION = _IS_WORK & (pl.col("kind") == "communication")
_COMPUTE, _EXPOSED, _MEMORY, _IDLE = PARTS

#: All of them, as `weftrace diff --figures` lists them.
FIGURES = (
    Figure(name="span", measured=lambda side, _: side.spans_ns, typical=_median),
    Figure(name="compute", measured=_sum("own_ns", _part(_COMPUTE))),
    Figure(name="exposed", measured=_sum("own_ns", _part(_EXPOSED))),
    Figure(
        name="exposed", takes="ROLE", measured=_sum("own_ns", _part(_EXPOSED)),
        known=lambda _: set(ROLES),
    ),
    Figure(name="lateness", measured=_sum("own_ns", _part(WAITING)), known=_names("cause", _part(WAITING)([]))),
    Figure(name="memory", measured=_sum("own_ns", _part(_MEMORY))),
    Figure(name="idle", measured=_sum("own_ns", _part(_IDLE))),
    Figure(name="idle", takes="CAUSE", measured=_sum("own_ns", _part(_IDLE)), known=lambda _: {*CAUSES, *TOLD_APART}),
    Figure(name="communication", measured=_sum("union_ns", lambda _: _IS_COMMUNICATION)),
    Figure(name="hidden", unit="share", measured=_hidden),
    Figure(name="launches", unit="number", measured=_sum("num", lambda _: _IS_LAUNCHED)),
    _of("family"),
    _of("kernel"),
    _of("operator"),
    _of("phase"),
    Figure(
        name="rank", takes="N", measured=_of_rank, typical=_median,
        known=lambda side: {str(rank.rank) for rank in side.ranks if rank.rank is not None},
    ),
)  # fmt: skip
