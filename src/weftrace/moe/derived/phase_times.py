"""How busy was each phase of a simulated profile, how much of it was hidden, and what do its times rest on?"""

from __future__ import annotations

from typing import Annotated, TypedDict

import numpy as np
import polars as pl
from msgspec import Meta

from weftrace.analysis.intervals import covered, grouped_union, of_events, sums_by_group
from weftrace.files.columns import Shown, frame_schema
from weftrace.files.schemas import Amount, Count, Positive
from weftrace.moe.as_plan import STREAMS, operation_of_rows
from weftrace.moe.profiles import Profile
from weftrace.plan.as_traces import trace_of
from weftrace.trace.model import on_device


class PhaseRow(TypedDict):
    """A phase of one micro-batch on one rank: means over layers."""

    phase: Annotated[str, Shown(wide=True)]
    micro_batch: Annotated[Count, Shown("micro-batch", term="micro_batch")]
    kind: Annotated[str, Meta(description="compute, communication, or fused: both in one kernel.")]
    num_layers: Positive
    busy_ns: Annotated[Amount, Meta(description="|Its kernels|."), Shown("busy", term="busy")]
    hidden_ns: Annotated[
        float | None,
        Meta(description="Of communication: beside some computation; else null."),
        Shown("hidden", term="hidden"),
    ]
    exposed_ns: Annotated[float | None, Meta(description="The rest of it."), Shown("exposed", term="exposed")]
    basis: Annotated[str, Meta(description="Where its durations come from.")]


PHASE_SCHEMA = frame_schema(PhaseRow)

#: Of kernels: those under which communication hides.
COMPUTES = pl.col("kind").is_in(("compute", "fused"))


def last_rank(profile: Profile) -> int:
    """The rank that ends last; of equals the first."""
    ends = profile.times.ops.select("rank", "end_ns").sort("end_ns", "rank", descending=[True, False])
    return int(ends.get_column("rank")[0])


def inner_layers(profile: Profile) -> range:
    """Repetitions of the list that have others before and after them; all where there are fewer than three."""
    num = int(profile.times.ops.get_column("layer").max()) + 1  # type: ignore[arg-type]
    return range(1, num - 1) if num > 2 else range(num)


def phase_table(profile: Profile, rank: int | None = None, *, layers: range | None = None) -> pl.DataFrame:
    """One row per phase, micro-batch and kind of work (`PhaseRow`), in the order of the list.

    By hand: busy is the union of a phase's kernels over streams; hidden what of that ran beside some compute kernel,
    exposed the rest. rank: the one that ends last where none is given. layers: of which the means are; all by default.
    `inner_layers` are those of a model that has many: the first and the last have nothing beside a part of them.
    """
    kernels = kernels_of(profile, last_rank(profile) if rank is None else rank)
    compute = of_events(kernels.filter(COMPUTES))
    if layers is not None:
        kernels = kernels.filter(pl.col("layer").is_in(list(layers)))
    operations = profile.overlap.operations
    bases = {each.name: [piece.basis for piece in profile.prices[each.name]] for each in operations}
    described = pl.DataFrame(
        {
            "operation": range(len(operations)),
            "phase": [each.phase for each in operations],
            "basis": ["; ".join(dict.fromkeys(filter(None, bases[each.name]))) for each in operations],
        }
    )
    key = ("phase", "micro_batch", "kind")
    kernels = kernels.join(described, on="operation", maintain_order="left").with_columns(
        group=pl.struct(*key).rank("dense")
    )
    rows = kernels.sort("operation").group_by(*key, "group", maintain_order=True)
    found = rows.agg(pl.col("layer").n_unique().alias("num_layers"), pl.col("basis").unique(maintain_order=True))
    groups, own = grouped_union(*(kernels.get_column(name) for name in ("group", "start_ns", "end_ns")))
    beside = covered(compute, own.starts, own.ends)
    at = found.get_column("group").to_numpy().astype(np.int64)
    size = int(at.max(initial=0)) + 1  # of all groups: one of no time has no intervals
    busy, hidden = (sums_by_group(groups, each, size) for each in (own.ends - own.starts, beside))
    communicates = pl.col("kind") == "communication"
    return found.with_columns(
        busy_ns=pl.Series(busy[at]) / pl.col("num_layers"),
        hidden_ns=pl.when(communicates).then(pl.Series(hidden[at]) / pl.col("num_layers")),
        exposed_ns=pl.when(communicates).then(pl.Series(busy[at] - hidden[at]) / pl.col("num_layers")),
        basis=pl.col("basis").list.join("; "),
    ).select(pl.col(name).cast(dtype) for name, dtype in PHASE_SCHEMA.items())


def kernels_of(profile: Profile, rank: int) -> pl.DataFrame:
    """Kernels of a rank, by stream and time: operation (place in the list), repetition, layer, micro_batch, kind,
    stream, lane, num_sms, start_ns and end_ns from the plan's start. They are those of the trace that is written of it,
    but for those that take no time: a model without shared experts has no such phase."""
    plan = profile.plan
    trace = trace_of(profile.times, rank)
    zero = int(trace.info["origin_ns"])
    events = trace.events.filter(on_device()).sort("stream", "ts_ns", maintain_order=True)
    made_of = operation_of_rows(profile.overlap, profile.prices, profile.setting, num_ranks=len(plan.ranks))
    lane_of = {stream: lane for lane, stream in STREAMS.items()}
    ops = (
        plan.ops.select("stream", "num_kernels", "layer", "micro_batch", "num_sms", kind=pl.col("kind").cast(pl.String))
        .with_columns(made_of, lane=pl.col("stream").replace_strict(lane_of, return_dtype=pl.String))[
            plan.rows_on(rank)
        ]
        .sort("stream", maintain_order=True)
    )
    kernels = ops[np.repeat(np.arange(ops.height), ops.get_column("num_kernels").to_numpy())]
    assert kernels.height == events.height, (kernels.height, events.height)
    start = events.get_column("ts_ns") - zero
    timed = kernels.with_columns(start_ns=start, end_ns=start + events.get_column("dur_ns"))
    return timed.filter(pl.col("end_ns") > pl.col("start_ns"))
