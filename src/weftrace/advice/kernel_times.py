"""Other times for kernels: at another rate of FLOP/s, or a chain of memory-bound ones as one."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from weftrace.advice.op_times import OpTimes, op_times
from weftrace.analysis.efficiency.costs_of_calls import shapes_of_calls
from weftrace.analysis.efficiency.counted_calls import counted_calls
from weftrace.errors import AdviceError
from weftrace.trace.work import Work
from weftrace.units import S, counted

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]
_CALLS: WeakKeyDictionary[Work, pl.Series] = WeakKeyDictionary()  # of each event its call: rules ask for it many times


def fused(
    label: str, work: Work, rows: ArrayLike, chain: ArrayLike = 0, *, bytes_per_s: float | None = None
) -> OpTimes:
    """Each chain of kernels becomes one: the first takes the time of all, the others none, nor are they launched.

    The one kernel reads what the first call of the chain reads, and what each later one reads beyond the result of the
    one before, and writes what the last writes, at `bytes_per_s`. It takes no longer than the chain did, and no less
    than its shortest kernel. Where bytes of a call, or the rate, are not known, it takes as long as the longest.

    rows: of `Work.events`. chain: the number of each one's chain, or one for all. Raises `AdviceError` as `op_times`,
    and where no chain has two kernels.
    """
    costs = costs_of_kernels(work, np.atleast_1d(np.asarray(rows, np.int64)), label)
    of_chain = np.broadcast_to(np.asarray(chain, np.int64), costs.height)
    kernels = costs.with_columns(chain=pl.Series(of_chain)).sort("chain", "start_ns", maintain_order=True)
    if kernels.height == kernels.get_column("chain").n_unique():
        raise AdviceError(f"{label}: no chain has two kernels, so there is nothing to fuse.")
    is_new = (pl.col("call") != pl.col("call").shift(1)).fill_null(True) | (pl.col("chain") != pl.col("chain").shift(1))
    first_of_chain = pl.int_range(pl.len()).over("chain") == 0
    result = pl.col("written_bytes").shift(1).over("chain").fill_null(0)
    reads = pl.when(is_new).then((pl.col("read_bytes") - result).clip(lower_bound=0)).otherwise(0)
    kernels = kernels.with_columns(reads=pl.when(first_of_chain).then("read_bytes").otherwise(reads))
    sums = kernels.group_by("chain").agg(
        pl.col("took_ns").sum(), shortest=pl.col("took_ns").min(), longest=pl.col("took_ns").max(),
        moved=pl.col("reads").sum() + pl.col("written_bytes").last(),
        is_known=pl.col("moved_bytes").is_not_null().all() & pl.lit(bytes_per_s is not None),
    )  # fmt: skip
    by_bytes = (pl.col("moved") * (S / (bytes_per_s or 1.0))).clip(pl.col("shortest"), pl.col("took_ns"))
    sums = sums.with_columns(one_ns=pl.when("is_known").then(by_bytes).otherwise("longest"))
    kernels = kernels.join(sums.select("chain", "one_ns", "is_known"), on="chain", maintain_order="left")
    lasts = kernels.select(pl.when(first_of_chain).then("one_ns").otherwise(0.0)).to_series().to_numpy()
    unknown = int((~sums.get_column("is_known")).sum())
    notes = [f"{label}: {counted(sums.height, 'chain')} of kernels as one each, by the bytes that it must move"]
    if unknown:
        notes.append(f"{label}: {counted(unknown, 'chain')} with unknown bytes, as long as the longest kernel")
    return op_times(label, work, kernels.get_column("event"), lasts, frees_launches=True, notes=notes)


def at_efficiency(label: str, work: Work, rows: ArrayLike, flops_per_s: float) -> OpTimes:
    """Kernels at another rate of executed matrix FLOP/s; those of one call share its FLOPs by their time. Kernels whose
    FLOPs are not known keep their time.

    rows: of `Work.events`. Raises `AdviceError` as `op_times`, and where FLOPs are known of none.
    """
    if not flops_per_s > 0:
        raise AdviceError(f"{label}: a rate is a number above 0, in FLOP/s.")
    kernels = costs_of_kernels(work, np.atleast_1d(np.asarray(rows, np.int64)), label)
    known = kernels.filter(pl.col("executed_flops").fill_null(0) > 0)
    if known.is_empty():
        raise AdviceError(f"{label}: the FLOPs of these kernels are not known: record shapes (record_shapes=True).")
    target = pl.col("executed_flops") * (S / flops_per_s)
    lasts = known.select(pl.col("took_ns") * target / pl.col("call_ns")).to_series()
    left = kernels.height - known.height
    notes = [f"{label}: {counted(left, 'kernel')} without known FLOPs keep their time"] if left else []
    return op_times(label, work, known.get_column("event"), lasts, notes=notes)


def costs_of_kernels(work: Work, event: _Ints, label: str) -> pl.DataFrame:
    """event, start_ns, took_ns, and of the operator call that each belongs to: call, call_ns (of all its events),
    read_bytes, written_bytes, moved_bytes, executed_flops; null where shapes do not tell them."""
    if ((event < 0) | (event >= work.events.height)).any():
        raise AdviceError(f"{label}: rows are those of the work's {work.events.height:,} events, each once.")
    every = work.trace.events
    if (calls := _CALLS.get(work)) is None:
        calls = _CALLS[work] = counted_calls(every, work.events)
    took = work.events.select("start_ns", took_ns=(pl.col("end_ns") - pl.col("start_ns")).cast(pl.Float64))
    events = took.with_row_index("event").with_columns(calls).with_columns(
        call_ns=pl.when(pl.col("call").is_not_null()).then(pl.col("took_ns").sum().over("call"))
    )[event]  # fmt: skip
    shapes, index = shapes_of_calls(every, events.get_column("call"))
    names = ("read_bytes", "written_bytes", "moved_bytes", "executed_flops")
    told = [[None if shape.cost is None else getattr(shape.cost, name) for name in names] for shape in shapes]
    table = pl.DataFrame([*told, [None] * len(names)], dict.fromkeys(names, pl.Float64), orient="row")
    known = table[np.where(index >= 0, index, len(shapes))]
    return events.hstack(known.with_columns(moved_bytes=pl.when(pl.col("moved_bytes") > 0).then("moved_bytes")))
