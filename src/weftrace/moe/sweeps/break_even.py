"""From which batch on does overlapping pay?

Two micro-batches of half the size hide communication, and cost more computation: weights are read twice, GEMMs are
smaller. Every batch of the range is simulated, none is interpolated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import polars as pl
from msgspec import Meta
from numpy.typing import NDArray

from weftrace.errors import ProfileError, WeftraceError
from weftrace.facts import model_config
from weftrace.files.columns import Shown
from weftrace.files.schemas import Positive
from weftrace.moe.as_plan import plan_of
from weftrace.moe.costs.levels import price, slowdowns_at, was_measured
from weftrace.moe.derived.tokens_per_second import ACCEPTED, tokens_of
from weftrace.moe.operations import Overlap
from weftrace.moe.overlap_files import load_overlap
from weftrace.moe.pieces import Piece, Prices, assumptions
from weftrace.moe.profiles import check_fit, layer_starts
from weftrace.moe.requested import level_of, setting_of
from weftrace.moe.requests import ModelPhase, Request
from weftrace.moe.setting import Setting, tokens_of_a_step
from weftrace.moe.sweeps.many_settings import shared_words
from weftrace.notebook import InNotebook
from weftrace.plan import timetable, with_contention
from weftrace.units import S, signed

#: What is held against no overlap, where none is named.
COMPARED: dict[ModelPhase, tuple[str, ...]] = {
    "train": ("training",),
    "prefill": ("two-micro-batches", "two-batch", "dual-batch", "chunked", "waves"),
    "decode": ("two-batch", "dual-batch", "chunked", "waves"),
}
BASE = "none"
MAX_BATCHES = 2_048


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One list over all batches."""

    overlap: Annotated[str, Shown("list")]
    title: Annotated[str, Shown("what it is", wide=True)]
    tokens_per_gpu: Annotated[
        list[float | None], Meta(description="Tokens per second of one GPU, by batch; null: it cannot be cut so.")
    ]
    pays_from: Annotated[
        Positive | None,
        Meta(
            description="The smallest batch for which it beats no overlap, there and at every larger one; null: none."
        ),
        Shown("pays from", term="pays_from"),
    ]
    pays_between: Annotated[
        list[tuple[int, int]], Meta(description="Stretches of batches, first and last, at which it beats no overlap.")
    ]
    best_gain: Annotated[
        float | None, Meta(description="The most tokens per second over no overlap's, less 1."), Shown("at best")
    ]
    best_batch: Annotated[Positive | None, Meta(description="At which batch."), Shown("at")]
    last_gain: Annotated[float | None, Meta(description="At the largest batch.")]
    assumed: Annotated[list[str], Meta(description="What the prices of its operations assume.")]
    reason: Annotated[str, Meta(description="Why it is impossible here; empty where it is possible.")] = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Pays(InNotebook):
    """Operation lists against no overlap, by batch."""

    request: Request
    unit: Annotated[str, Meta(description="What batches count.")]
    batches: Annotated[tuple[Positive, ...], Meta(min_length=1, description="Of one GPU, ascending.")]
    curves: Annotated[tuple[Curve, ...], Meta(min_length=1, description="No overlap first.")]

    def __post_init__(self) -> None:
        if any(len(curve.tokens_per_gpu) != len(self.batches) for curve in self.curves):
            raise ValueError("a curve of `curves` has more or fewer numbers than there are `batches`")

    @property
    def shared(self) -> Annotated[dict[str, str], Meta(description="What all have in common, as text.")]:
        return shared_words(self.request, ["overlap"])

    @property
    def headline(self) -> Annotated[str, Meta(description="From where on it pays.")]:
        others = [curve for curve in self.curves[1:] if not curve.reason]
        skipped = _skipped(self.batches)
        paying = sorted((curve for curve in others if curve.pays_from), key=lambda curve: curve.pays_from or 0)
        parts = []
        for curve in paying:
            where = "at every batch" if curve.pays_from == self.batches[0] else f"from {curve.pays_from:,} on"
            parts.append(f"{curve.overlap} {where} ({signed(curve.last_gain)} at {self.batches[-1]:,})")
        never = [curve.overlap for curve in others if curve not in paying]
        if not parts:
            why = f"{', '.join(never)} {'stays' if len(never) == 1 else 'stay'} behind no overlap"
            return f"overlapping pays nowhere up to {self.batches[-1]:,} {self.unit} a GPU{skipped}: " + (
                why if never else "none of the lists can run"
            )
        tail = f"; {', '.join(never)} not by {self.batches[-1]:,}" if never else ""
        return f"overlapping pays, in {self.unit} a GPU{skipped}: {', '.join(parts)}{tail}"

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "pays", self.headline
        yield from (
            (curve.overlap, curve.reason or f"at best {signed(curve.best_gain)} at {curve.best_batch}")
            for curve in self.curves[1:]
        )


def pays(
    request: Request,
    batches: Sequence[int],
    *,
    overlaps: Sequence[str] | None = None,
    acceptance: float = ACCEPTED,
    on_progress: Callable[[int, int], object] = lambda done, total: None,
) -> Pays:
    """Which lists beat no overlap, at which batches.

    batches: of one GPU, ascending: requests in decode, else tokens. overlaps: lists to hold against no overlap; those
    of `COMPARED` where it is None. A list that cannot run at any batch says why. Raises `ProfileError` where no overlap
    itself cannot run at any, and for more than `MAX_BATCHES` batches.
    """
    if not batches or len(batches) > MAX_BATCHES or min(batches) < 1:
        coarser = f"; FROM..TO/{-(-len(batches) // MAX_BATCHES)} takes some of them" if batches else ""
        raise ProfileError(f"{len(batches):,} batches; give 1 to {MAX_BATCHES:,}, each of 1 or more{coarser}")
    if request.layers < 3:
        raise ProfileError(f"{request.layers} layers: 3 or more are needed to find the time that a layer adds")
    if request.ranks != 1 or request.routing != "balanced" or request.loads is not None or request.contention:
        raise ProfileError("whether it pays is computed for one rank with balanced routing, without contention")
    names = (BASE, *(overlaps if overlaps is not None else COMPARED[request.kind]))
    each = request.tokens_per_request or tokens_of_a_step(model_config(request.model))
    asked = replace(request, tokens_per_request=each) if request.kind == "decode" else request
    found: dict[str, tuple[Overlap, _Rates]] = {}
    for done, name in enumerate(dict.fromkeys(names)):
        overlap = load_overlap(name, request.kind)
        found[name] = overlap, _rates(replace(asked, overlap=name), overlap, batches, acceptance)
        on_progress(done + 1, len(names))
    base = found[BASE][1]
    if base.reason:
        raise ProfileError(f"no overlap, which the others are compared with, cannot run: {base.reason}")
    curves = tuple(_curve(overlap, rates, base.per_gpu, batches) for overlap, rates in found.values())
    unit = "requests" if request.kind == "decode" else "tokens"
    return Pays(request=request, unit=unit, batches=tuple(batches), curves=curves)


@dataclass(frozen=True, slots=True)
class _Rates:
    """per_gpu: tokens a second at each batch, NaN where it cannot be cut so. reason: why, where never possible."""

    per_gpu: NDArray[np.float64]
    assumed: tuple[str, ...]
    reason: str


def _rates(request: Request, overlap: Overlap, batches: Sequence[int], acceptance: float) -> _Rates:
    """Tokens a second of a list at each batch.

    Batches whose operations consist of the same pieces are the ranks of one plan: none waits for another.
    """
    rates = np.full(len(batches), np.nan)
    groups: dict[tuple[object, ...], list[tuple[int, Setting, Prices]]] = {}
    level, reason = level_of(request.costs), ""
    assumed: dict[str, None] = {}
    for at, batch in enumerate(batches):
        try:
            setting, prices = _priced(request, overlap, batch)
        except WeftraceError as error:
            reason = reason or str(error)
            continue
        groups.setdefault(_structure(prices), []).append((at, setting, prices))
    for members in groups.values():
        setting = members[0][1]
        stacked = _stacked([prices for _, _, prices in members])
        assumed |= dict.fromkeys(part for _, _, prices in members for part in assumptions(prices))
        plan = plan_of(overlap, stacked, setting, num_ranks=len(members), share_sms=not was_measured(level))
        slowdowns = slowdowns_at(level, contention=False)
        times = with_contention(plan, slowdowns).times if slowdowns else timetable(plan)
        starts_LR = layer_starts(times, overlap)  # each rank by itself: none waits for another
        layers_ns = (starts_LR[-1] - starts_LR[1]) / (len(starts_LR) - 2)
        for (at, own, _), layer_ns in zip(members, layers_ns, strict=True):
            tokens = tokens_of(own, overlap.num_micro_batches, acceptance)
            rates[at] = tokens * S / (layer_ns * own.model.num_layers)
    return _Rates(rates, tuple(assumed), "" if groups else reason)


def _priced(request: Request, overlap: Overlap, batch: int) -> tuple[Setting, Prices]:
    if request.kind == "decode":
        batch *= request.tokens_per_request or 1
    setting = setting_of(replace(request, tokens=None, gpu_tokens=batch), overlap)
    check_fit(setting, overlap)
    return setting, price(overlap, setting, None, level_of(request.costs))


def _structure(prices: Prices) -> tuple[object, ...]:
    """What two prices must have alike to be ranks of one plan."""
    return tuple(
        (name, piece.name, piece.kind, piece.num_kernels, piece.num_sms)
        for name, own in prices.items()
        for piece in own
    )


def _stacked(members: list[Prices]) -> Prices:
    """One price whose ranks are these."""
    return {
        name: tuple(map(_side_by_side, zip(*(prices[name] for prices in members), strict=True))) for name in members[0]
    }


def _side_by_side(pieces: tuple[Piece, ...]) -> Piece:
    durations = [np.asarray(each.duration_ns, np.float64) for each in pieces]
    assert all(each.size == 1 for each in durations), "balanced routing gives one number"
    return replace(
        pieces[0], duration_ns=np.array([[each.item() for each in durations]]), meets=False, flops=0.0, moved_bytes=0.0
    )


def _curve(overlap: Overlap, found: _Rates, base: NDArray[np.float64], batches: Sequence[int]) -> Curve:
    rates = found.per_gpu
    both = np.isfinite(rates) & np.isfinite(base)
    gains = np.where(both, rates, 0.0) / np.where(both, base, 1.0) - 1
    at = np.flatnonzero(both)
    wins = gains[at] > 0
    lost = np.flatnonzero(~wins)
    first_of_last = 0 if not len(lost) else int(lost[-1]) + 1
    best = at[int(np.argmax(gains[at]))] if len(at) else None
    return Curve(
        overlap=overlap.name,
        title=overlap.title,
        tokens_per_gpu=[None if np.isnan(rate) else float(rate) for rate in rates],
        pays_from=batches[at[first_of_last]] if first_of_last < len(at) else None,
        pays_between=[(batches[at[a]], batches[at[b]]) for a, b in _stretches(wins)],
        best_gain=None if best is None else float(gains[best]),
        best_batch=None if best is None else batches[best],
        last_gain=float(gains[at[-1]]) if len(at) else None,
        assumed=list(found.assumed),
        reason=found.reason,
    )


def _stretches(wins: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """First and last of each run of true."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], wins, [False])).astype(np.int8)))
    yield from zip(edges[::2].tolist(), (edges[1::2] - 1).tolist(), strict=True)


def _skipped(batches: Sequence[int]) -> str:
    """Which batches were simulated where some between the first and the last were not; else nothing."""
    steps = set(np.diff(batches).tolist())
    if steps <= {1}:
        return ""
    which = f"in steps of {steps.pop():,}" if len(steps) == 1 else f"{len(batches):,} of them"
    return f" (batches from {batches[0]:,} to {batches[-1]:,}, {which})"


def pays_table(pays: Pays) -> pl.DataFrame:
    """One row per batch: tokens per second of one GPU by list."""
    return pl.DataFrame({"batch": pays.batches, **{curve.overlap: curve.tokens_per_gpu for curve in pays.curves}})
