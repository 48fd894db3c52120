"""Other times for collectives: as fewer and larger messages, by latency and bandwidth as the trace's own show them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import add

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.advice.named_ranges import device_rows
from weftrace.advice.op_times import OpTimes, op_times
from weftrace.analysis.hidden_communication import DTYPE_BYTES
from weftrace.errors import AdviceError
from weftrace.plan.inference.values import Inferred
from weftrace.units import S, counted, duration, size

#: Of fewer sizes no line is told.
LEAST_SIZES = 4
#: What needs all of its input at once ends with the last message that it is made of; what is gathered begins with the
#: first.
_AT_THE_LAST = ("all_reduce", "reduce_scatter", "reduce")
_KEY = ("collective", "group", "dtype")


def messages_of(
    label: str,
    inferred: Inferred,
    *,
    target_bytes: float | None = None,
    factor: int | None = None,
    collectives: Iterable[str] = ("all_reduce", "all_gather", "reduce_scatter"),
) -> OpTimes:
    """Collectives that follow each other become one: `factor` of them, or as many as make `target_bytes`.

    A message takes latency + bytes / bandwidth, the line through the shortest transfers of each size of the same kind,
    group and datatype (Theil and Sen's). Of n that become one, n - 1 latencies are saved; waiting stays. All-reduce and
    reduce-scatter take place where the last of them did, the others where the first did. Those of several steps, or
    streams, stay apart.

    Raises `AdviceError` where no kind and group has `LEAST_SIZES` sizes, or none become one.
    """
    if (target_bytes is None) == (factor is None) or (factor or 2) < 2 or not (target_bytes or 1) > 0:
        raise AdviceError(f"{label}: say how many become one, 2 or more, or the bytes that they are to make.")
    ops = _collectives(inferred.kernels or inferred).filter(pl.col("collective").is_in(list(collectives)))
    lines = fitted(ops)
    if lines.is_empty():
        raise AdviceError(
            f"{label}: latency and bandwidth need {LEAST_SIZES} or more sizes of one collective in one group, "
            "and none here has as many."
        )
    same = ("at", *_KEY, "stream", "step")
    ops = ops.join(lines, on=_KEY, nulls_equal=True).sort("at", "start_ns", maintain_order=True)
    place = pl.int_range(pl.len()).over(same)
    before = pl.col("bytes").cum_sum().over(same) - pl.col("bytes")
    into = place // factor if factor is not None else (before // target_bytes).cast(pl.Int64)
    ops = ops.with_columns(into=into)
    one = (*same, "into")
    number, nth = pl.len().over(one), pl.int_range(pl.len()).over(one)
    carries = pl.when(pl.col("collective").is_in(_AT_THE_LAST)).then(nth == number - 1).otherwise(nth == 0)
    least = pl.col("latency_ns") + pl.col("bytes").sum().over(one) * pl.col("ns_per_byte")
    saves = (number - 1) * pl.col("latency_ns")
    takes = pl.max_horizontal(pl.col("took_ns").sum().over(one) - saves, least)
    takes = pl.min_horizontal(takes, pl.col("took_ns").sum().over(one))
    ops = ops.with_columns(number=number, takes_ns=pl.when(carries).then(takes).otherwise(0.0)).filter(
        pl.col("number") > 1
    )
    if ops.is_empty():
        raise AdviceError(f"{label}: no two collectives of one kind and group follow each other that would become one.")
    merged = ops.filter(pl.col("takes_ns") > 0)
    notes = [f"{label}: {counted(ops.height, 'collective')} become {merged.height:,}, {_told(lines)}"]
    each = [
        op_times(label, work, mine.get_column("event"), mine.get_column("takes_ns"), frees_launches=True, notes=notes)
        for at, work in enumerate(inferred.works)
        if not (mine := ops.filter(at=at)).is_empty()
    ]
    return reduce(add, each)


def fitted(ops: pl.DataFrame) -> pl.DataFrame:
    """Latency and time a byte of each kind, group and datatype with enough sizes: `_KEY`, latency_ns, ns_per_byte.

    ops: `_KEY`, bytes and took_ns, a row a collective.
    """
    shortest = ops.group_by(*_KEY, "bytes", maintain_order=True).agg(pl.col("took_ns").min()).sort(*_KEY, "bytes")
    rows = []
    for key, sizes in shortest.group_by(*_KEY, maintain_order=True):
        if sizes.height >= LEAST_SIZES:
            rows.append((*key, *_line(sizes.get_column("bytes").to_numpy(), sizes.get_column("took_ns").to_numpy())))
    schema = {**{name: ops.schema[name] for name in _KEY}, "latency_ns": pl.Float64(), "ns_per_byte": pl.Float64()}
    return pl.DataFrame(rows, schema, orient="row")


def _line(num_bytes: NDArray[np.float64], took_ns: NDArray[np.float64]) -> tuple[float, float]:
    """Latency and slope: the median of the slopes of all pairs, and of what is left of each."""
    first, second = np.triu_indices(len(num_bytes), 1)
    slope = max(0.0, float(np.median((took_ns[second] - took_ns[first]) / (num_bytes[second] - num_bytes[first]))))
    latency = float(np.median(took_ns - slope * num_bytes))
    return min(max(0.0, latency), float(took_ns.min())), slope


def _told(lines: pl.DataFrame) -> str:
    row = lines.row(0, named=True)
    rate = f"{size(S / row['ns_per_byte'])}/s" if row["ns_per_byte"] > 0 else "no more for more bytes"
    more = f", and {lines.height - 1:,} more lines" if lines.height > 1 else ""
    return f"by {duration(row['latency_ns'])} and {rate} for {row['collective']}{more}"


def _collectives(inferred: Inferred) -> pl.DataFrame:
    """Collectives on devices whose size is known: at, event, stream, step, start_ns, took_ns (the transfer, where ranks
    meet), bytes, and `_KEY`."""
    parts = []
    for at, work in enumerate(inferred.works):
        rows, events = device_rows(inferred, at)
        ops = inferred.plan.ops.select(took_ns=pl.col("duration_ns").cast(pl.Float64))[rows]
        element = pl.col("dtype").cast(pl.String).replace_strict(DTYPE_BYTES, default=None, return_dtype=pl.Int64)
        known = work.events.select(
            "stream", "step", "start_ns", "kind", pl.col("collective", "dtype", "role").cast(pl.String),
            group=pl.concat_str(pl.col("group", "group_ranks").cast(pl.String).fill_null("")),
            bytes=(pl.col("payload_elems") * element).cast(pl.Float64),
        )[events]  # fmt: skip
        mine = known.hstack(ops).with_columns(at=pl.lit(at), event=pl.Series(events))
        parts.append(mine.filter(pl.col("kind") == "communication", pl.col("role") == "data", pl.col("bytes") > 0))
    return pl.concat(parts)
