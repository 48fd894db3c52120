"""How fast did each operator run, shape by shape, and what part of the chip's peak is that?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from weftrace.analysis.efficiency.chips import chip_of
from weftrace.analysis.efficiency.costs_of_calls import Shape, shapes_of_calls
from weftrace.analysis.efficiency.counted_calls import counted_calls, recomputed
from weftrace.analysis.efficiency.parts import parts_of
from weftrace.analysis.efficiency.values import Efficiency, OperatorRateRow, ShapeRow, WindowRateRow
from weftrace.analysis.host_pieces import operator_pieces
from weftrace.analysis.intervals import of_events
from weftrace.costs.cost import Cost, Kind, Status
from weftrace.costs.rates import limits, matrix_peak
from weftrace.facts import Hardware
from weftrace.files.columns import frame_of, frame_schema
from weftrace.trace.device_windows import step_windows
from weftrace.trace.model import Trace
from weftrace.trace.work import Work, as_work
from weftrace.units import S, percent

_NO_COST = Cost(kind=Kind.UNKNOWN, status=Status.UNKNOWN)


def efficiency_of(
    source: Trace | Work, *, hardware: Hardware | str | None = None, innermost: pl.Series | None = None
) -> Efficiency:
    """FLOP/s, bytes/s and part of the peak of every operator and shape of one device.

    hardware: the accelerator whose peaks count, by default the one that the file names. innermost: of each of
    `Work.events` the innermost operator (`operator_rows`), where it is known already. Of a step's window the events
    that start in it count, whole.
    Raises `WeftraceError` for an accelerator that weftrace does not know, TraceError where a device must be chosen.
    """
    work = as_work(source)
    chip, notes = chip_of(work, hardware)
    events = _events(work, innermost)
    shapes, index = shapes_of_calls(work.trace.events, events.get_column("call"))
    events = events.with_columns(pl.Series("shape", index))
    rated = [_Rated.of(shape, chip) for shape in shapes]
    calls = _calls(events, rated)
    again = recomputed(work.trace.events, calls.get_column("call"))
    recomputed_flops = int(calls.get_column("flops").filter(again).sum())
    calls = calls.with_columns(pl.when(again).then(0).otherwise(pl.col(c)).alias(c) for c in ("flops", "needed_ns"))
    table = _shape_table(events, calls, rated)
    parts = parts_of(events, shapes)
    total_ns = int(events.get_column("dur_ns").sum())
    flops_ns = int(parts.filter(part="flops").get_column("total_ns").sum())
    span_ns = work.end_ns - work.start_ns
    return Efficiency(
        hardware="" if chip is None else chip.name,
        total_ns=total_ns,
        span_ns=span_ns,
        rated_share=_share(flops_ns, total_ns) or 0.0,
        flops=int(calls.get_column("flops").sum()),
        executed_flops=int(calls.get_column("executed_flops").sum()),
        recomputed_flops=recomputed_flops,
        mfu=_share(calls.get_column("needed_ns").sum(), span_ns) if chip else None,
        hfu=_share(calls.get_column("peak_ns").sum(), span_ns) if chip else None,
        **_of_products(events, calls, rated, total_ns, chip),
        parts=parts,
        shapes=table,
        operators=_operator_table(table),
        steps=_steps(work, events, calls, chip),
        phases=_phases(work, events, calls, chip),
        notes=(*notes, *_notes(parts, table, work)),
    )


def _events(work: Work, innermost: pl.Series | None) -> pl.DataFrame:
    """What is rated: a device's events that start here, whole; of a host's work its operators, cut where others lie in
    them. With dur_ns, call, is_memset, is_graph."""
    every = work.trace.events
    if work.basis == "device":
        events = work.started
        row = events.get_column("row")
        of_trace = every.select("cat", "graph_id", "num_blocks", "num_threads", "registers", "shared_bytes")[row]
        events = events.with_columns(
            (of_trace.get_column("cat") == "gpu_memset").alias("is_memset"),
            of_trace.get_column("graph_id").is_not_null().alias("is_graph"),
        )
        innermost = innermost if events is work.events else None
        events = events.with_columns(counted_calls(every, events, innermost))
    elif work.basis == "host":
        events = operator_pieces(work).with_columns(
            name=pl.lit("", dtype=pl.Categorical()), is_memset=pl.lit(False), is_graph=pl.lit(False),
            link=pl.lit("host"), moved_bytes=pl.lit(None, dtype=pl.Int64), payload_elems=pl.lit(None, dtype=pl.Int64),
            step=pl.lit(None, dtype=pl.Int64), phase=pl.lit(None, dtype=pl.Int32),
        )  # fmt: skip
        events = events.with_columns(counted_calls(every, events))
    else:
        events = work.events.clear().with_columns(
            is_memset=pl.lit(False), is_graph=pl.lit(False), call=pl.lit(None, dtype=pl.Int64)
        )
    return events.with_columns((pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns"))


@dataclass(frozen=True, slots=True)
class _Rated:
    """A shape and what one call of it takes at least. needed_ns, peak_ns: its needed and executed FLOPs at `peak`'s
    rate; bound_ns: by the roofline; all 0 where no chip is known."""

    shape: Shape
    cost: Cost
    peak: str | None = None
    needed_ns: float = 0.0
    peak_ns: float = 0.0
    bound_ns: float = 0.0
    bound: str | None = None
    note: str = ""

    @classmethod
    def of(cls, shape: Shape, chip: Hardware | None) -> _Rated:
        cost = shape.cost or _NO_COST
        if chip is None or shape.cost is None:
            return cls(shape, cost)
        least = limits(cost, chip)
        peak = matrix_peak(chip, cost.dtype) if cost.executed_flops or cost.flops else None
        rate = S / peak.flops_per_s if peak else 0.0
        in_memory = cost.kind is not Kind.COMM and (cost.moved_bytes or cost.executed_flops)
        return cls(
            shape, cost,
            peak=peak.dtype if peak else None,
            needed_ns=cost.flops * rate,
            peak_ns=cost.executed_flops * rate,
            bound_ns=least.bound_ns if in_memory else 0.0,
            bound=("compute" if least.is_compute else "memory") if in_memory and least.bound_ns else None,
            note=peak.note if peak else "",
        )  # fmt: skip


def _calls(events: pl.DataFrame, rated: Sequence[_Rated]) -> pl.DataFrame:
    """A row for each operator call: call, shape, total_ns, memset_ns, busy_ns, step, phase of its first event, and the
    FLOPs, bytes and least times of one call of its shape."""
    mine = events.filter(pl.col("shape") >= 0).sort("call", "start_ns", maintain_order=True)
    works = ~pl.col("is_memset")
    reach = pl.when(works).then(pl.col("end_ns")).cum_max().shift(1).over("call")
    own = pl.when(works).then(pl.col("end_ns") - pl.max_horizontal("start_ns", reach)).otherwise(0).clip(0)
    calls = (
        mine.with_columns(own.alias("own_ns"))
        .group_by("call", "shape", maintain_order=True)
        .agg(
            pl.col("dur_ns").sum().alias("total_ns"),
            pl.col("dur_ns").filter(pl.col("is_memset")).sum().alias("memset_ns"),
            pl.col("own_ns").sum().alias("busy_ns"),
            pl.col("step").first(),
            pl.col("phase").first(),
        )
    )
    of_shape: dict[str, list[Any]] = {
        "flops": [r.cost.flops for r in rated], "executed_flops": [r.cost.executed_flops for r in rated],
        "moved_bytes": [r.cost.moved_bytes for r in rated],
        "needed_ns": [r.needed_ns for r in rated], "peak_ns": [r.peak_ns for r in rated],
    }  # fmt: skip
    types = {"flops": pl.Int64, "executed_flops": pl.Int64, "moved_bytes": pl.Int64}
    at = calls.get_column("shape")
    return calls.with_columns(
        pl.Series(name, values, dtype=types.get(name, pl.Float64)).gather(at).alias(name)
        for name, values in of_shape.items()
    )


def _shape_table(events: pl.DataFrame, calls: pl.DataFrame, rated: Sequence[_Rated]) -> pl.DataFrame:
    """A frame of `ShapeRow`, most device time first."""
    whole = max(1, int(events.get_column("dur_ns").sum()))
    sums = calls.group_by("shape").agg(
        pl.len().cast(pl.Int64).alias("num_calls"),
        pl.col("total_ns", "busy_ns", "memset_ns").sum(),
        pl.col("busy_ns").min().alias("best_ns"),
    )
    rows = [_shape_row(rated[each["shape"]], each, whole) for each in sums.to_dicts()]
    return frame_of(ShapeRow, rows).sort("total_ns", "operator", "shapes", descending=[True, False, False])


def _shape_row(of: _Rated, sums: dict[str, Any], whole: int) -> dict[str, Any]:
    cost, calls, busy = of.cost, sums["num_calls"], sums["busy_ns"]
    moved = cost.moved_bytes
    known = of.shape.cost is not None
    return {
        "operator": of.shape.operator,
        "shapes": of.shape.sizes,
        "dtype": cost.dtype,
        "computes_in": None,
        "tensor_cores": None,
        "kind": cost.kind,
        "num_calls": calls,
        "total_ns": sums["total_ns"],
        "busy_ns": busy,
        "memset_ns": sums["memset_ns"],
        "share": sums["total_ns"] / whole,
        "flops": calls * cost.flops,
        "executed_flops": calls * cost.executed_flops,
        "vector_flops": calls * cost.vector_flops,
        "read_bytes": calls * cost.read_bytes,
        "written_bytes": calls * cost.written_bytes,
        "flops_per_s": _rate(calls * cost.flops, busy) if cost.flops else None,
        "bytes_per_s": _rate(calls * moved, busy) if known and moved else None,
        "intensity": (cost.executed_flops + cost.vector_flops) / moved if moved else None,
        "peak": of.peak,
        "peak_share": _share(calls * of.peak_ns, busy) if of.peak else None,
        "roofline_share": _share(calls * of.bound_ns, busy) if of.bound else None,
        "bound": of.bound,
        "best_flops_per_s": _rate(cost.flops, sums["best_ns"]) if cost.flops else None,
        "status": cost.status,
        "note": " ".join(filter(None, (cost.note, of.note))),
        "why": "",
    }


def _operator_table(shapes: pl.DataFrame) -> pl.DataFrame:
    """A frame of `OperatorRateRow`, most device time first."""
    sums = ("num_calls", "total_ns", "busy_ns", "share", "flops", "executed_flops", "vector_flops")
    rates = pl.col("busy_ns").filter(pl.col("peak_share").is_not_null()).sum()
    roofs = pl.col("busy_ns").filter(pl.col("roofline_share").is_not_null()).sum()
    table = shapes.group_by("operator").agg(
        pl.len().cast(pl.Int64).alias("num_shapes"),
        pl.col(sums).sum(),
        (pl.col("read_bytes") + pl.col("written_bytes")).sum().alias("moved_bytes"),
        _when(rates > 0, (pl.col("peak_share") * pl.col("busy_ns")).sum() / rates).alias("peak_share"),
        _when(roofs > 0, (pl.col("roofline_share") * pl.col("busy_ns")).sum() / roofs).alias("roofline_share"),
    )
    busy = pl.col("busy_ns")
    table = table.with_columns(
        pl.col("share").clip(0, 1),
        _when((pl.col("flops") > 0) & (busy > 0), pl.col("flops") / busy * S).alias("flops_per_s"),
        _when((pl.col("moved_bytes") > 0) & (busy > 0), pl.col("moved_bytes") / busy * S).alias("bytes_per_s"),
    )
    table = table.sort("total_ns", "operator", descending=[True, False])
    return table.select(pl.col(name).cast(dtype) for name, dtype in frame_schema(OperatorRateRow).items())


def _when(condition: pl.Expr, value: pl.Expr) -> pl.Expr:
    return pl.when(condition).then(value)


# --- products and what they ran on ------------------------------------------------------------------------------------


def _of_products(
    events: pl.DataFrame, calls: pl.DataFrame, rated: Sequence[_Rated], total_ns: int, chip: Hardware | None
) -> dict[str, Any]:
    """The fields of `Efficiency` about matrix products and tensor cores."""
    products = [index for index, each in enumerate(rated) if each.cost.kind is Kind.MATMUL]
    mine = calls.filter(pl.col("shape").is_in(products))
    gemm_ns = int(mine.get_column("busy_ns").sum())
    return {
        "gemm_ns": gemm_ns,
        "gemm_peak_share": _share(mine.get_column("peak_ns").sum(), gemm_ns) if chip else None,
        "tensor_core_gemm_share": None,
        "unknown_core_gemm_share": None,
        "tensor_core_share": None,
    }


# --- steps and phases -------------------------------------------------------------------------------------------------


def _steps(work: Work, events: pl.DataFrame, calls: pl.DataFrame, chip: Hardware | None) -> pl.DataFrame:
    """A row for each step, where the whole of a device's work is at hand."""
    if work.basis != "device" or work.step is not None:
        return pl.DataFrame(schema=frame_schema(WindowRateRow))
    windows = step_windows(work.events).with_columns((pl.col("end_ns") - pl.col("start_ns")).alias("span_ns"))
    spans = windows.select(pl.format("step {}", "step").alias("name"), pl.col("step").alias("key"), "span_ns")
    return _windows(spans, events.with_columns(key="step"), calls.with_columns(key="step"), chip)


def _phases(work: Work, events: pl.DataFrame, calls: pl.DataFrame, chip: Hardware | None) -> pl.DataFrame:
    """A row for each name of a phase."""
    names = work.phases.select(pl.col("phase").cast(pl.Int32), pl.col("name").alias("key"))
    named = events.join(names, on="phase", how="left", maintain_order="left")
    spans = [
        {"name": str(key), "key": str(key), "span_ns": of_events(part).total_ns}
        for (key,), part in named.filter(pl.col("key").is_not_null()).group_by("key", maintain_order=True)
    ]
    frame = pl.DataFrame(spans, schema={"name": pl.String, "key": pl.String, "span_ns": pl.Int64})
    of_calls = calls.join(names, on="phase", how="left", maintain_order="left")
    found = _windows(
        frame, named.with_columns(pl.col("key").cast(pl.String)), of_calls.with_columns(pl.col("key").cast(pl.String)),
        chip,
    )  # fmt: skip
    return found.sort("total_ns", "name", descending=[True, False])


def _windows(spans: pl.DataFrame, events: pl.DataFrame, calls: pl.DataFrame, chip: Hardware | None) -> pl.DataFrame:
    """A frame of `WindowRateRow`. spans: name, key, span_ns; events and calls have the same key."""
    times = events.group_by("key").agg(pl.col("dur_ns").sum().alias("total_ns"))
    sums = calls.group_by("key").agg(
        pl.col("total_ns").filter(pl.col("executed_flops") > 0).sum().alias("rated_ns"),
        pl.col("flops", "executed_flops", "moved_bytes", "needed_ns", "peak_ns").sum(),
    )
    rows = spans.join(times, on="key", how="left").join(sums, on="key", how="left", maintain_order="left")
    rows = rows.with_columns(pl.col("total_ns", "rated_ns", "flops", "executed_flops", "moved_bytes").fill_null(0))
    span = pl.col("span_ns")
    peak = pl.lit(chip is not None) & (span > 0)
    rows = rows.with_columns(
        (pl.col("rated_ns") / pl.col("total_ns").clip(1)).clip(0, 1).alias("rated_share"),
        _when((span > 0) & (pl.col("flops") > 0), pl.col("flops") / span * S).alias("flops_per_s"),
        _when(peak, pl.col("needed_ns").fill_null(0) / span).alias("mfu"),
        _when(peak, pl.col("peak_ns").fill_null(0) / span).alias("hfu"),
    )
    return rows.select(pl.col(name).cast(dtype) for name, dtype in frame_schema(WindowRateRow).items())


# --- notes ------------------------------------------------------------------------------------------------------------


def _notes(parts: pl.DataFrame, shapes: pl.DataFrame, work: Work) -> list[str]:
    notes = []
    without = float(parts.filter(part="no shapes").get_column("share").sum())
    if shapes.filter(pl.col("status") != Status.UNKNOWN).is_empty() and parts.height:
        notes.append(
            "No operator was recorded with shapes, so there are no FLOPs and no bytes: record with "
            "torch.profiler.profile(record_shapes=True)."
        )
    elif without > 0.01:
        notes.append(f"{percent(without)} of device time is of operators without usable shapes: it is in no rate.")
    graphs = float(parts.filter(pl.col("reason").str.starts_with("graph replay")).get_column("share").sum())
    if graphs > 0.01:
        notes.append(f"{percent(graphs)} of device time ran in graph replays, which record no operators.")
    return notes


def _rate(amount: float, ns: int) -> float | None:
    return amount * S / ns if ns else None


def _share(part: Any, whole: float) -> float | None:
    return float(part) / whole if whole else None
