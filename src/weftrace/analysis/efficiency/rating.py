"""How fast did each operator run, shape by shape, and what part of the chip's peak is that?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from weftrace.analysis.efficiency.chips import chip_of
from weftrace.analysis.efficiency.costs_of_calls import Shape, shapes_of_calls
from weftrace.analysis.efficiency.counted_calls import counted_calls, recomputed
from weftrace.analysis.efficiency.explaining import explanations
from weftrace.analysis.efficiency.launches import launches_of
from weftrace.analysis.efficiency.least_times import LeastTime, least_time
from weftrace.analysis.efficiency.parts import parts_of
from weftrace.analysis.efficiency.precision import kernel_precision
from weftrace.analysis.efficiency.shape_kernels import NO_KERNEL, by_precision, shape_kernels
from weftrace.analysis.efficiency.shape_tables import (
    calls_in_steps,
    calls_of,
    operator_table,
    shape_table,
    sums_of_shapes,
)
from weftrace.analysis.efficiency.values import EVENT_FLOPS, Efficiency
from weftrace.analysis.efficiency.windows import phase_rates, step_rates
from weftrace.analysis.host_pieces import operator_pieces
from weftrace.costs.cost import Kind, Status
from weftrace.costs.custom_ops import CustomOp
from weftrace.facts import Hardware
from weftrace.trace.launches import in_graphs
from weftrace.trace.model import Trace, is_launch
from weftrace.trace.work import Work, as_work
from weftrace.units import percent

_ON_HOST = (
    "Times are those of operators on the host: rates of a run on CPUs, and of nothing where the host launched on a "
    "device that was not recorded."
)
#: Of device time, from which on what is not rated is told in a note.
_WORTH_SAYING = 0.01


def efficiency_of(
    source: Trace | Work,
    *,
    hardware: Hardware | str | None = None,
    innermost: pl.Series | None = None,
    custom_ops: tuple[CustomOp, ...] | None = None,
) -> Efficiency:
    """FLOP/s, bytes/s and part of the peak of every operator and shape of one device.

    hardware: the accelerator whose peaks count, by default the one that the file names. innermost: of each of
    `Work.events` the innermost operator (`operator_rows`), where it is known already. custom_ops: what operators of
    other libraries cost (`costs.load_custom_ops`), by default weftrace's own rules. Of a step's window the events that
    start in it count, whole.
    Raises `WeftraceError` for an accelerator that weftrace does not know, TraceError where a device must be chosen.
    """
    work = as_work(source)
    chip, notes = chip_of(work, hardware)
    events = _events(work, innermost, custom_ops)
    shapes, index = shapes_of_calls(work.trace.events, events.get_column("call"), custom_ops)
    events = events.with_columns(pl.Series("shape", index))
    events, shapes = by_precision(events, shapes)
    kernels = shape_kernels(events)
    rated = [least_time(shape, kernels.get(at, NO_KERNEL), chip) for at, shape in enumerate(shapes)]
    calls = calls_of(events, rated)
    again = recomputed(work.trace.events, calls.select(pl.when(pl.col("flops") > 0).then("call")).to_series())
    recomputed_flops = int(calls.get_column("flops").filter(again).sum())
    calls = calls.with_columns(pl.when(again).then(0).otherwise(pl.col(c)).alias(c) for c in ("flops", "needed_ns"))
    at_most = [at for at, each in enumerate(rated) if each.cost.status is Status.UPPER_BOUND]
    total_ns = int(events.get_column("dur_ns").sum())
    sums = sums_of_shapes(calls)
    launches = launches_of(work, events, rated)
    why = explanations(work, events, sums, rated, launches, chip)
    table = shape_table(sums, rated, launches, why, total_ns)
    operators = operator_table(table)
    parts = parts_of(events, shapes)
    flops_ns = int(parts.filter(part="flops").get_column("total_ns").sum())
    span_ns = work.end_ns - work.start_ns
    return Efficiency(
        basis="host" if work.basis == "host" else "device",
        hardware="" if chip is None else chip.name,
        peaks={} if chip is None else {dtype: chip.peak(dtype) for dtype in _peaks_used(table)},
        memory_bytes_per_s=None if chip is None else chip.hbm_bytes_per_s,
        total_ns=total_ns,
        span_ns=span_ns,
        rated_share=_share(flops_ns, total_ns) or 0.0,
        flops=int(calls.get_column("flops").sum()),
        executed_flops=int(calls.get_column("executed_flops").sum()),
        recomputed_flops=recomputed_flops,
        at_most_flops=int(calls.filter(pl.col("shape").is_in(at_most)).get_column("flops").sum()),
        mfu=_share(calls.get_column("needed_ns").sum(), span_ns) if chip and flops_ns else None,
        hfu=_share(calls.get_column("executed_ns").sum(), span_ns) if chip and flops_ns else None,
        **_of_products(events, calls, rated, chip),
        num_shapes=table.height,
        num_rated=table.filter((pl.col("flops") > 0) | (pl.col("read_bytes") + pl.col("written_bytes") > 0)).height,
        num_operators=operators.height,
        parts=parts,
        shapes=table,
        operators=operators,
        steps=step_rates(work, events, calls, chip),
        phases=phase_rates(work, events, calls, chip),
        notes=(*notes, *_notes(parts, shapes), *((_ON_HOST,) if work.basis == "host" else ())),
        in_steps=calls_in_steps(calls, rated),
        in_events=calls.filter(pl.col("executed_flops") > 0).select(pl.col(n).cast(t) for n, t in EVENT_FLOPS.items()),
    )


def efficiency_or_none(
    work: Work,
    hardware: Hardware | str | None = None,
    innermost: pl.Series | None = None,
    custom_ops: tuple[CustomOp, ...] | None = None,
) -> Efficiency | None:
    """`efficiency_of`, where operators tell it: not of ranges, of a simulation, or of a host that only launches, whose
    operators' time says nothing of their FLOP/s."""
    if work.basis not in ("device", "host") or work.trace.simulated:
        return None
    if work.basis == "host" and not work.trace.events.lazy().filter(is_launch()).head(1).collect().is_empty():
        return None
    return efficiency_of(work, hardware=hardware, innermost=innermost, custom_ops=custom_ops)


def _peaks_used(shapes: pl.DataFrame) -> list[str]:
    """The dtypes whose peaks rates are held against, in their order."""
    return sorted(shapes.get_column("peak").drop_nulls().unique())


def _events(work: Work, innermost: pl.Series | None, custom: tuple[CustomOp, ...] | None) -> pl.DataFrame:
    """What is rated: a device's events that start here, whole; of a host's work its operators, cut where others lie in
    them. With dur_ns, call, is_memset, is_graph."""
    every = work.trace.events
    if work.basis == "device":
        events = work.started
        innermost = innermost if events is work.events else None
        is_memset = every.get_column("cat").gather(events.get_column("row")) == "gpu_memset"
        events = events.with_columns(
            is_memset.alias("is_memset"), in_graphs(events, every), counted_calls(every, events, innermost, custom)
        )
        # a replay is no call of the operator around it
        events = events.with_columns(pl.when(~pl.col("is_graph")).then("call").alias("call"))
    elif work.basis == "host":
        events = operator_pieces(work).with_row_index("row").with_columns(
            name=pl.lit("", dtype=pl.Categorical()), is_memset=pl.lit(False), is_graph=pl.lit(False),
            link=pl.lit("host"), moved_bytes=pl.lit(None, dtype=pl.Int64), payload_elems=pl.lit(None, dtype=pl.Int64),
            step=pl.lit(None, dtype=pl.Int64), phase=pl.lit(None, dtype=pl.Int32),
        )  # fmt: skip
        events = events.with_columns(counted_calls(every, events, custom=custom))
    else:
        events = work.events.clear().with_columns(
            is_memset=pl.lit(False), is_graph=pl.lit(False), call=pl.lit(None, dtype=pl.Int64)
        )
    return events.with_columns((pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns"))


def _of_products(
    events: pl.DataFrame, calls: pl.DataFrame, rated: Sequence[LeastTime], chip: Hardware | None
) -> dict[str, Any]:
    """The fields of `Efficiency` about matrix products and tensor cores."""
    products = [at for at, each in enumerate(rated) if each.cost.kind is Kind.MATMUL]
    mine = calls.filter(pl.col("shape").is_in(products))
    gemm_ns = int(mine.get_column("busy_ns").sum())
    on_cores = kernel_precision(events.get_column("name")).get_column("tensor_cores")
    times = events.select("dur_ns", on_cores, pl.col("shape").is_in(products).alias("of_product"))
    total_ns = int(times.get_column("dur_ns").sum())
    on = times.filter(pl.col("tensor_cores"))
    of_products = times.filter(pl.col("of_product"))
    unknown = of_products.filter(pl.col("tensor_cores").is_null())
    product_ns = int(of_products.get_column("dur_ns").sum())
    return {
        "gemm_ns": gemm_ns,
        "gemm_peak_share": _share(mine.get_column("peak_ns").sum(), gemm_ns) if chip else None,
        "tensor_core_gemm_share": _share(on.filter(pl.col("of_product")).get_column("dur_ns").sum(), product_ns),
        "unknown_core_gemm_share": _share(unknown.get_column("dur_ns").sum(), product_ns),
        "tensor_core_share": _share(on.get_column("dur_ns").sum(), total_ns),
    }


def _notes(parts: pl.DataFrame, shapes: Sequence[Shape]) -> list[str]:
    notes = []
    without = float(parts.filter(part="no shapes").get_column("share").sum())
    if without and all(shape.cost is None for shape in shapes):
        notes.append(
            "Operators were recorded without shapes, so there are no FLOPs: record with "
            "torch.profiler.profile(record_shapes=True)."
        )
    elif without > _WORTH_SAYING:
        notes.append(f"{percent(without)} of device time is of operators without usable shapes: it is in no rate.")
    graphs = float(parts.filter(pl.col("reason").str.starts_with("graph replay")).get_column("share").sum())
    if graphs > _WORTH_SAYING:
        notes.append(f"{percent(graphs)} of device time ran in graph replays, which record no operators.")
    return notes


def _share(part: Any, whole: float) -> float | None:
    return float(part) / whole if whole else None
