"""A simulated profile: an operation list, priced, laid out in time; and what follows from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.analysis.intervals import of_events
from weftrace.errors import ProfileError
from weftrace.moe.as_plan import GAP_NS, STREAMS, plan_of
from weftrace.moe.operations import Overlap, need_whole
from weftrace.moe.overlap_files import load_overlap
from weftrace.moe.pieces import Prices
from weftrace.moe.requests import Comm, ModelPhase
from weftrace.moe.routing.load import BALANCED
from weftrace.moe.setting import Setting
from weftrace.notebook import InNotebook
from weftrace.plan import Plan, Slowdown, Timetable, timetable, with_contention
from weftrace.units import duration

if TYPE_CHECKING:
    from weftrace.moe.costs.levels import AnyLevel
    from weftrace.moe.routing.load import Load
    from weftrace.trace import Trace

#: The operation list of each published profile.
PUBLISHED_OVERLAP: dict[ModelPhase, str] = {
    "train": "training",
    "prefill": "two-micro-batches",
    "decode": "five-stages",
}


def default_overlap(kind: ModelPhase, comm: Comm = "deepep-v1") -> str:
    """The published profile's list, or where its kernels have no such transfers, the nearest that they can run."""
    if comm == "fused" and kind != "train":
        return "waves"
    return "dual-batch" if kind == "decode" and comm == "deepep-v2" else PUBLISHED_OVERLAP[kind]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Profile(InNotebook):
    """A profile as it was simulated.

    setting, overlap, prices: what it was made of; level: how prices were found. times: of its plan.
    share_sms: whether kernels that ask for more SMs than there are wait for each other. contention: whether durations
    are stretched by what runs beside. routing: whom tokens go to, in words.
    """

    setting: Setting
    overlap: Overlap
    level: str
    prices: Prices
    times: Timetable
    share_sms: bool = True
    contention: bool = False
    routing: str = BALANCED

    @property
    def plan(self) -> Plan:
        return self.times.plan

    @property
    def num_ranks(self) -> int:
        return len(self.plan.ranks)

    @property
    def span_ns(self) -> int:
        """From the first start to the last end, over all ranks."""
        return self.times.makespan_ns

    @property
    def layer_ns(self) -> float:
        """Time that a layer adds: see `LayerWindow`."""
        return self.layers.layer_ns

    @property
    def layers(self) -> LayerWindow:
        """Its inner layers."""
        return layer_window(self.times, self.overlap, self.setting.num_layers)

    @property
    def costs(self) -> str:
        """How durations were found, in words."""
        return self.level + (", stretched by concurrent kernels (contention)" if self.contention else "")

    def summary(self) -> dict[str, str]:
        """The configuration as text: what `Trace.info` tells of it, with "profile." before each key."""
        return {
            **self.setting.summary(), "overlap": self.overlap.name, "costs": self.costs,
            "layers": str(self.setting.num_layers), **({} if self.routing == BALANCED else {"routing": self.routing}),
        }  # fmt: skip

    def trace(self, rank: int = 0) -> Trace:
        """The trace of one rank, as the profiler would have written it. Raises `PlanError` for a rank that is none."""
        from weftrace.plan import trace_of

        trace = trace_of(self.times, rank)
        return replace(trace, info={**trace.info, **{f"profile.{key}": text for key, text in self.summary().items()}})

    def __repr__(self) -> str:
        at = self.setting
        who = f"{at.kind} of {at.model.name} on {at.ep} × {at.hardware.name}"
        return f"Profile({who!r}, {self.overlap.name}, {duration(self.layer_ns, 4)} a layer, costs {self.costs!r})"

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield from self.setting.summary().items()
        yield "overlap", self.overlap.title
        yield "costs", self.costs
        yield "span", duration(self.span_ns)
        yield "a layer", duration(self.layer_ns, 4)


def make_profile(
    setting: Setting,
    overlap: Overlap | str | None = None,
    *,
    level: AnyLevel = "published",
    load: Load | None = None,
    num_ranks: int = 1,
    contention: bool = False,
) -> Profile:
    """The profile of a setting, priced.

    overlap: a list, its name or its file; None for `default_overlap`. level: "roofline", "published", or a
    calibration. load: what each rank has to do, balanced where it is None. num_ranks: ranks that are simulated, of the
    group of `setting.ep`. contention: stretch durations by what runs beside (`weftrace.plan.with_contention`); a
    calibration holds those of kernels alone, and is stretched by its own table in any case.

    Raises `ProfileError` where the list does not fit the setting or leaves out part of a layer, and for prices that
    there are none of.
    """
    from weftrace.moe.costs.levels import level_name, price, slowdowns_at, was_measured

    if not isinstance(setting, Setting):
        raise ProfileError(f"a Setting is wanted here, not {setting!r}: Setting.of({setting!r}), say")
    if overlap is None or isinstance(overlap, str):
        overlap = load_overlap(overlap or default_overlap(setting.kind, setting.comm), setting.kind)
    check_fit(setting, overlap)
    return simulated(
        setting, overlap, price(overlap, setting, load, level), level=level_name(level), num_ranks=num_ranks,
        slowdowns=slowdowns_at(level, contention=contention), share_sms=not was_measured(level),
        routing=BALANCED if load is None else load.routing,
    )  # fmt: skip


def check_fit(setting: Setting, overlap: Overlap) -> None:
    """Raise `ProfileError`, with both numbers, where a list cannot be run in a setting, or leaves out part of it."""
    need_whole(overlap, setting.kind)
    if overlap.is_fused != (setting.comm == "fused"):
        which = "has one fused kernel" if overlap.is_fused else "moves tokens by kernels of their own"
        needs = 'fused"' if overlap.is_fused else 'deepep-v1" or "deepep-v2"'
        raise ProfileError(f'overlap {overlap.name!r} {which}, so comm is "{needs}, not {setting.comm!r}')
    if setting.comm == "deepep-v2" and any(each.lane == "network" for each in overlap.operations):
        raise ProfileError(
            f"overlap {overlap.name!r} has transfers that hold no SM, and DeepEP V2 has none: its kernels hold "
            f"{setting.comm_sms} SMs here. Choose dual-batch, or comm = 'deepep-v1'."
        )
    if setting.tokens % overlap.num_chunks:
        raise ProfileError(
            f"{setting.tokens:,} tokens cannot be cut in {overlap.num_chunks} equal chunks: "
            f"{setting.tokens:,} / {overlap.num_chunks} is no whole number"
        )


def simulated(
    setting: Setting,
    overlap: Overlap,
    prices: Prices,
    *,
    level: str,
    num_ranks: int = 1,
    slowdowns: Sequence[Slowdown] = (),
    share_sms: bool = True,
    gap_ns: int = GAP_NS,
    routing: str = BALANCED,
) -> Profile:
    """The profile of these prices. slowdowns: what ops that run side by side cost each other (contention).

    Raises `ProfileError` where they do not fit the list, and `PlanError` where the list stands still.
    """
    plan = plan_of(overlap, prices, setting, num_ranks=num_ranks, share_sms=share_sms, gap_ns=gap_ns)
    times = with_contention(plan, slowdowns).times if slowdowns else timetable(plan)
    if overlap.all_sms:
        _check_alone(times, overlap)
    return Profile(
        setting=setting, overlap=overlap, level=level, prices=prices, times=times, share_sms=share_sms,
        contention=bool(slowdowns), routing=routing,
    )  # fmt: skip


def _check_alone(times: Timetable, overlap: Overlap) -> None:
    """Raise `ProfileError` where computation that is priced with every SM runs beside kernels that hold some."""
    ops = times.ops.filter(rank=times.plan.ranks[0])
    moves = pl.col("stream") == STREAMS["communication"]
    beside = of_events(ops.filter(moves)) & of_events(ops.filter(~moves, pl.col("kind").cast(pl.String) == "compute"))
    if beside.total_ns:
        raise ProfileError(
            f"overlap {overlap.name!r} says all_sms, that its computation never runs beside kernels that move tokens; "
            f"it does for {duration(beside.total_ns)}. Leave all_sms out, or let one wait for the other."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerWindow:
    """The stretch of a profile in which layers stand between others, and how many they are.

    start_ns, end_ns: when the list's first operation starts in the second layer and in the last, on the rank where it
    is last. Of fewer than three layers the whole span, which has the ends in it.
    """

    start_ns: int
    end_ns: int
    num_layers: int

    @property
    def layer_ns(self) -> float:
        """Time that a layer adds."""
        return (self.end_ns - self.start_ns) / self.num_layers


def layer_window(times: Timetable, overlap: Overlap, num_layers: int) -> LayerWindow:
    """The inner layers of a plan of that list. num_layers: all that were run."""
    starts = layer_starts(times, overlap).max(axis=1).tolist()
    if len(starts) < 3:
        return LayerWindow(start_ns=0, end_ns=times.makespan_ns, num_layers=num_layers)
    return LayerWindow(start_ns=starts[1], end_ns=starts[-1], num_layers=len(starts) - 2)


def layer_starts(times: Timetable, overlap: Overlap) -> NDArray[np.int64]:
    """[L, R] when the list's first operation starts in each layer, on each rank of a plan of that list."""
    first = overlap.operations[0]
    ops = times.ops.filter(phase=first.phase, micro_batch=first.micro_batch)
    starts = ops.group_by("layer", "rank").agg(pl.col("start_ns").min()).sort("layer", "rank").get_column("start_ns")
    return starts.to_numpy().reshape(-1, len(times.plan.ranks))
