"""What a trace tells about efficiency, as values: rates of operators and shapes, and what could not be rated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Literal, TypeAlias, TypedDict

import polars as pl
from msgspec import Meta

from weftrace.costs.cost import Kind, Status
from weftrace.files.columns import Shown
from weftrace.files.schemas import Count, Ns, Share
from weftrace.files.values import UNSAVED, As
from weftrace.notebook import InNotebook
from weftrace.units import S, percent, si

#: What is known of device time. flops: matrix FLOPs of the operator call that launched it. bytes: its bytes alone.
#: no shapes: an operator launched it and its shapes, or what follows from them, are not known. no operator: none is
#: recorded around its launch.
Part: TypeAlias = Literal["flops", "bytes", "no shapes", "no operator"]
PARTS: tuple[Part, ...] = ("flops", "bytes", "no shapes", "no operator")

#: What sets the least time of a call: arithmetic, the device's memory, or the way between host and device.
Bound: TypeAlias = Literal["compute", "memory", "host link"]

Ratio = Annotated[float, Meta(ge=0)]
Rate: TypeAlias = Ratio | None


class PartRow(TypedDict):
    """Device time of which the same is known. total_ns of all rows add up to the device's total exactly."""

    part: Annotated[Part, Meta(description="flops, bytes, no shapes or no operator.")]
    reason: Annotated[str, Meta(description="Why no more is known; empty where FLOPs are."), Shown("reason", wide=True)]
    num_events: Annotated[Count, Shown("device events")]
    total_ns: Annotated[Ns, Meta(description="Sum of the durations of its device events."), Shown("device time")]
    share: Annotated[Share, Meta(description="Of the durations of all device events."), Shown(term="share")]


class ShapeRow(TypedDict):
    """All calls of one operator with the same shapes, dtypes and cost. Counts are of all calls together."""

    operator: Annotated[str, Meta(description="Name, as the profiler wrote it."), Shown("operator")]
    shapes: Annotated[str, Meta(description="Sizes of its input tensors: [5185x1024] [1024x4096]."), Shown(wide=True)]
    dtype: Annotated[str, Meta(description="Of the matrix inputs, as stored.")]
    computes_in: Annotated[
        str | None,
        Meta(description="The dtype that its kernels' names say they compute in; null where they do not."),
        Shown("computes in"),
    ]
    tensor_cores: Annotated[
        bool | None,
        Meta(description="Whether its longest kernel ran on tensor or matrix cores; null where its name does not say."),
        Shown("tensor cores"),
    ]
    kind: Annotated[Kind, Meta(description="matmul, conv, attention, vector, move ...: what sort of work it is.")]
    num_calls: Annotated[Count, Meta(description="Calls that launched something."), Shown("calls")]
    total_ns: Annotated[Ns, Meta(description="Sum of the durations of its device events, sets of memory included.")]
    busy_ns: Annotated[
        Ns,
        Meta(description="Sum over calls of the time in which at least one of the call's events ran, sets of memory "
             "left out. Rates are over this time."),
        Shown("device time"),
    ]  # fmt: skip
    memset_ns: Annotated[Ns, Meta(description="Of total_ns, sets of memory (memset).")]
    share: Annotated[Share, Meta(description="total_ns over the durations of all device events."), Shown(term="share")]
    flops: Annotated[Count, Meta(description="Matrix FLOPs that the model needs; causal attention exact.")]
    executed_flops: Annotated[Count, Meta(description="Matrix FLOPs that the kernels execute.")]
    vector_flops: Annotated[Count, Meta(description="Arithmetic off the matrix units.")]
    read_bytes: Annotated[Count, Meta(description="Each input once.")]
    written_bytes: Annotated[Count, Meta(description="Each output once.")]
    flops_per_s: Annotated[Rate, Meta(description="flops / busy_ns; null where it has no matrix FLOPs."),
                           Shown("FLOP/s")]  # fmt: skip
    bytes_per_s: Annotated[Rate, Meta(description="(read_bytes + written_bytes) / busy_ns; null where unknown."),
                           Shown("bytes/s")]  # fmt: skip
    intensity: Annotated[Rate, Meta(description="Executed matrix and vector FLOPs for each byte."), Shown("FLOP/byte")]
    peak: Annotated[str | None, Meta(description="The dtype of the dense peak that its FLOPs are compared with.")]
    peak_share: Annotated[
        Ratio | None,
        Meta(description="Time of its executed FLOPs at that peak / busy_ns; null without FLOPs or a known chip."),
        Shown("of peak", style="share", term="peak_share"),
    ]
    roofline_share: Annotated[
        Ratio | None,
        Meta(description="The least time of its calls by the roofline / busy_ns; null where the chip is not known."),
        Shown("of roofline", style="share", term="roofline_share"),
    ]
    bound: Annotated[Bound | None, Meta(description="Which side of the roofline sets that least time.")]
    best_flops_per_s: Annotated[Rate, Meta(description="flops_per_s of the fastest of its calls.")]
    kernel: Annotated[str, Meta(description="What took most of its time; of a long name the first 120 characters.")]
    tile: Annotated[
        str | None, Meta(description="Rows x columns x depth that one block computes at a time, by the kernel's name.")
    ]
    num_waves: Annotated[
        Count | None,
        Meta(description="Blocks of that kernel over those that the device holds at once, rounded up; null where the "
             "file does not tell, or blocks take one piece of work after another."),
        Shown("waves"),
    ]  # fmt: skip
    last_wave_empty_share: Annotated[Share | None, Meta(description="Places of the last wave without a block.")]
    occupancy: Annotated[
        Count | None, Meta(description="Percent, as the profiler recorded it; null above 48 KiB of shared memory.")
    ]
    status: Annotated[Status, Meta(description="How far the count can be trusted.")]
    note: Annotated[str, Meta(description="What was assumed or is not known."), Shown(wide=True)]
    why: Annotated[str, Meta(description="Why it is below, or above, its peak; empty if unknown.")]


class OperatorRateRow(TypedDict):
    """All calls of one operator, whatever its shapes. Counts are sums over the rows of its shapes."""

    operator: Annotated[str, Meta(description="Name, as the profiler wrote it."), Shown("operator", wide=True)]
    num_shapes: Annotated[Count, Meta(description="Rows of it in the table of shapes."), Shown("shapes")]
    num_calls: Annotated[Count, Meta(description="Calls that launched something."), Shown("calls")]
    total_ns: Annotated[Ns, Meta(description="Sum of the durations of its device events.")]
    busy_ns: Annotated[
        Ns, Meta(description="Sum over calls of the time in which they ran, sets of memory left out."),
        Shown("device time"),
    ]  # fmt: skip
    share: Annotated[Share, Meta(description="total_ns over the durations of all device events."), Shown(term="share")]
    flops: Annotated[Count, Meta(description="Matrix FLOPs that the model needs.")]
    executed_flops: Annotated[Count, Meta(description="Matrix FLOPs that the kernels execute.")]
    vector_flops: Annotated[Count, Meta(description="Arithmetic off the matrix units.")]
    moved_bytes: Annotated[Count, Meta(description="Each input and each output once.")]
    flops_per_s: Annotated[Rate, Meta(description="flops / busy_ns; null without matrix FLOPs."), Shown("FLOP/s")]
    bytes_per_s: Annotated[Rate, Meta(description="moved_bytes / busy_ns; null where unknown."), Shown("bytes/s")]
    peak_share: Annotated[
        Ratio | None, Meta(description="Mean over its shapes that have one, by their time."),
        Shown("of peak", style="share", term="peak_share"),
    ]  # fmt: skip
    roofline_share: Annotated[
        Ratio | None, Meta(description="Mean over its shapes that have one, by their time."),
        Shown("of roofline", style="share", term="roofline_share"),
    ]  # fmt: skip


class WindowRateRow(TypedDict):
    """What was rated of one step, or of all occurrences of one phase. Counts are of the operator calls that launched
    the first of their work in it: at least so much was done."""

    name: Annotated[str, Meta(description='"step 3", or the name of a phase.')]
    span_ns: Annotated[
        Ns,
        Meta(
            description="Of a step its window, of the last one to its last event; of a phase the time in which "
            "its events ran."
        ),
    ]
    total_ns: Annotated[Ns, Meta(description="Sum of the durations of its device events.")]
    rated_share: Annotated[Share, Meta(description="Of total_ns, what operators with known FLOPs took.")]
    flops: Count
    executed_flops: Count
    moved_bytes: Count
    flops_per_s: Annotated[Rate, Shown("FLOP/s")]
    mfu: Annotated[Ratio | None, Meta(description="Time of flops at the chip's peaks / span_ns, at least."),
                   Shown("MFU, at least", style="share", term="trace_mfu")]  # fmt: skip
    hfu: Annotated[Ratio | None, Meta(description="The same for executed FLOPs."),
                   Shown("HFU, at least", style="share", term="trace_mfu")]  # fmt: skip


#: Calls of a shape in a step, null outside of all: what comparisons need.
STEP_SHAPES = {
    "operator": pl.String(), "shapes": pl.String(), "dtype": pl.String(), "step": pl.Int64(), "num_calls": pl.Int64(),
    "busy_ns": pl.Int64(),
}  # fmt: skip


_ALL = 0.9995  # shown as 100 %
_ABOVE = 1.0005  # shown as more than 100 %
_WRONG = (
    "No device computes faster than its peak: the accelerator, a dtype, the clock or a count is wrong; the shapes that "
    "are above theirs say more."
)

#: FLOPs of a call at the first of its events. row: of the trace's events; on a host basis the position of its piece in
#: `operator_pieces`.
EVENT_FLOPS = {"row": pl.UInt32(), "flops": pl.Int64(), "executed_flops": pl.Int64()}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Efficiency(InNotebook):
    """FLOPs, bytes and rates of what a device ran, from the shapes that its trace recorded.

    A device event belongs to the outermost operator with a formula that was open on the launching thread at its launch,
    else to the innermost operator of any kind. Counts follow from the recorded shapes by the formulas that count a
    model as it runs.

    hardware: the accelerator whose peaks count; empty where none is known. total_ns: sum of durations of all device
    events, which the parts add up to. span_ns: first start to last end, or the window of the step.
    flops: needed by all rated calls but those that a checkpoint ran again in the backward (recomputed_flops).
    executed_flops: of all rated calls. mfu, hfu: time that flops and executed_flops take at the chip's
    dense peaks of the dtypes that compute / span_ns.
    They are lower bounds, because what is not rated adds nothing, but for at_most_flops. Null without a known chip or
    without rated FLOPs.
    gemm_ns: device time of matrix products (kind matmul). gemm_peak_share: time of their executed FLOPs at peak /
    gemm_ns. tensor_core_*: part of matrix products' time, and of total_ns, in kernels whose names say that they ran on
    tensor or matrix cores; unknown_core_gemm_share: of products whose kernels' names do not tell.
    in_steps: calls of each shape in each step, a frame of `STEP_SHAPES`. in_events: FLOPs of calls at their first
    event, a frame of `EVENT_FLOPS`.
    """

    basis: Annotated[
        Literal["device", "host"], Meta(description="Time of the device, or of operators on the host, for CPUs.")
    ]
    hardware: Annotated[str, Meta(description="Accelerator with the peaks that count; empty if unknown.")]
    peaks: Annotated[
        Mapping[str, float], Meta(description="Its dense peaks that rates are compared with, FLOP/s: dtype -> peak.")
    ]
    memory_bytes_per_s: Annotated[Rate, Meta(description="Bandwidth of its memory.")]
    total_ns: Annotated[Ns, Meta(description="Sum of the durations of all device events.")]
    span_ns: Annotated[Ns, Meta(description="First start to last end, or the step's window.")]
    rated_share: Annotated[Share, Meta(description="Of total_ns, what operators with known FLOPs took.")]
    flops: Annotated[Count, Meta(description="Needed matrix FLOPs of all rated calls but recomputed ones.")]
    executed_flops: Annotated[Count, Meta(description="Executed matrix FLOPs of all rated calls.")]
    recomputed_flops: Annotated[Count, Meta(description="Of them, by calls that a checkpoint ran again.")]
    at_most_flops: Annotated[Count, Meta(description="Of flops, those counted at most: a mask, say, was not recorded.")]
    mfu: Annotated[Ratio | None, Meta(description="Time of flops at peak / span_ns: at least.")]
    hfu: Annotated[Ratio | None, Meta(description="The same for executed FLOPs.")]
    gemm_ns: Annotated[Ns, Meta(description="Device time of matrix products.")]
    gemm_peak_share: Annotated[Ratio | None, Meta(description="Their executed FLOPs at peak / gemm_ns.")]
    tensor_core_gemm_share: Annotated[Share | None, Meta(description="Of gemm_ns, on tensor cores.")]
    unknown_core_gemm_share: Annotated[Share | None, Meta(description="Of gemm_ns, where names do not tell.")]
    tensor_core_share: Annotated[Share | None, Meta(description="Of total_ns, on tensor cores.")]
    num_shapes: Annotated[Count, Meta(description="Rows of the table of shapes; `shapes` may hold the first alone.")]
    num_rated: Annotated[Count, Meta(description="Of these, those with known FLOPs or bytes.")]
    num_operators: Annotated[Count, Meta(description="Rows of the table of operators; `operators` may hold the first.")]
    parts: Annotated[pl.DataFrame, As(list[PartRow])]
    shapes: Annotated[pl.DataFrame, As(list[ShapeRow]), Meta(description="Most device time first.")]
    operators: Annotated[pl.DataFrame, As(list[OperatorRateRow]), Meta(description="Most device time first.")]
    steps: Annotated[pl.DataFrame, As(list[WindowRateRow])]
    phases: Annotated[pl.DataFrame, As(list[WindowRateRow])]
    notes: Annotated[tuple[str, ...], Meta(description="What was assumed, or is wrong, a sentence each.")] = ()
    in_steps: Annotated[pl.DataFrame, UNSAVED] = field(default_factory=partial(pl.DataFrame, schema=STEP_SHAPES))
    in_events: Annotated[pl.DataFrame, UNSAVED] = field(default_factory=partial(pl.DataFrame, schema=EVENT_FLOPS))

    @property
    def headline(self) -> Annotated[str, Meta(description="The totals in a sentence: no MFU without what is rated.")]:
        """The totals in a sentence."""
        time = "operators' time on the host" if self.basis == "host" else "device time"
        if not self.flops and not self.executed_flops:
            return f"No {time} has known FLOPs."
        said = [f"FLOPs are known for {percent(self.rated_share)} of {time}"]
        if self.mfu is not None and self.hfu is not None:
            said.append(f"MFU at least {percent(self.mfu)}, HFU at least {percent(self.hfu)} of {self.hardware}")
        elif self.span_ns:
            said.append(f"at least {si(self.flops / self.span_ns * S, 'FLOP/s')} over the span, held against no peak")
        if self.flops and (at_most := self.at_most_flops / self.flops) >= 1 - _ALL:
            said.append(f"{percent(at_most)} of these FLOPs are at most: what a mask or lengths leave was not recorded")
        if self.gemm_peak_share is not None:
            said.append(f"matrix products reach {percent(self.gemm_peak_share)} of their peak")
        unknown = self.unknown_core_gemm_share or 0.0
        if self.tensor_core_gemm_share is not None and unknown < _ALL:
            of = f" (kernels' names do not say for {percent(unknown)})" if unknown >= 1 - _ALL else ""
            said.append(f"{percent(self.tensor_core_gemm_share)} of matrix products' time is on tensor cores{of}")
        above = max(self.mfu or 0, self.hfu or 0, self.gemm_peak_share or 0) > _ABOVE
        return "; ".join(said) + (f". {_WRONG}" if above else ".")

    def first(self, rows: int) -> Efficiency:
        """The same with so many rows of each table at most: the most device time, or the first steps."""
        tables = ("shapes", "operators", "steps", "phases")
        return replace(self, **{name: getattr(self, name).head(rows) for name in tables})

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "efficiency", self.headline
        rows = self.shapes.head(5).select("operator", "shapes", "share").iter_rows()
        yield from ((f"{operator} {shapes}", percent(share)) for operator, shapes, share in rows)
