"""Which communication on a critical path hides behind nothing, and which work waits for it?"""

from __future__ import annotations

from functools import reduce
from operator import add
from weakref import WeakKeyDictionary

import numpy as np
import polars as pl

from weftrace.advice.critical_paths import CriticalPath
from weftrace.advice.op_times import OpTimes, op_times
from weftrace.analysis.hidden_communication import DTYPE_BYTES
from weftrace.analysis.intervals import covered, union
from weftrace.plan.inference.values import Inferred

#: Columns of `exposed_of`, a row an op of the plan, in the order of the path.
EXPOSED_SCHEMA: dict[str, pl.DataType] = {
    "op": pl.UInt32(),
    "at": pl.Int32(),  # position of its rank
    "event": pl.UInt32(),  # row of the rank's `Work.events`
    "row": pl.UInt32(),  # of its trace's events
    "exposed_ns": pl.Int64(),  # on the path, while its device computes nothing
    "collective": pl.String(),  # or its own name
    "is_barrier": pl.Boolean(),
    "phase": pl.String(),
    "layer": pl.Int32(),
    "step": pl.Int64(),
    "waiter": pl.String(),  # phase, or family, of the next work on the path that is no communication
    "group": pl.String(),
    "group_size": pl.Int32(),
    "bytes": pl.Int64(),
    "duration_ns": pl.Int64(),  # in the plan
    "start_ns": pl.Int64(),  # as measured, on the trace's clock
    "end_ns": pl.Int64(),
}
_KEPT: WeakKeyDictionary[CriticalPath, pl.DataFrame] = WeakKeyDictionary()  # several rules ask


def exposed_of(path: CriticalPath, inferred: Inferred) -> pl.DataFrame:
    """Exposed communication on a path: a frame of `EXPOSED_SCHEMA`, those with none left out."""
    if path not in _KEPT:
        _KEPT[path] = _exposed(path, inferred)
    return _KEPT[path]


def communication_of(inferred: Inferred) -> pl.DataFrame:
    """All communication of a plan: the same columns but exposed_ns and waiter, with duration_ns and bytes (null where
    they are not recorded), in order of start."""
    ops = inferred.plan.ops.select("phase", "layer", "duration_ns", "name").with_row_index("op")
    ops = ops.hstack(inferred.measured.select("at", "event", "what", "role"))
    ops = ops.filter(what="communication").drop_nulls("event")
    parts = []
    for at, work in enumerate(inferred.works):
        mine = ops.filter(at=at)
        columns = ("row", "collective", "step", "group_ranks", "group", "group_size", "start_ns", "end_ns")
        num_bytes = pl.col("payload_elems") * pl.col("dtype").cast(pl.String).replace_strict(
            DTYPE_BYTES, default=None, return_dtype=pl.Int64
        )  # fmt: skip
        parts.append(mine.hstack(work.events.select(*columns, bytes=num_bytes)[mine.get_column("event")]))
    found = pl.concat(parts) if parts else ops.clear()
    text = pl.col("collective", "group", "phase", "name", "group_ranks").cast(pl.String)
    return found.with_columns(text).with_columns(
        pl.coalesce("collective", "name"), is_barrier=(pl.col("role") == "barrier").fill_null(False)
    ).sort("at", "start_ns")  # fmt: skip


def shorter(label: str, inferred: Inferred, ops: pl.DataFrame, *, longer: bool = False) -> OpTimes:
    """Ops that take `then_ns`, and with them all that meet them; never more than they did, unless some may take longer.
    ops: op, then_ns."""
    every = (
        inferred.plan.ops.select("meet", "duration_ns")
        .with_row_index("op")
        .hstack(inferred.measured.select("at", "event"))
    )
    own = every.join(ops.select("op", "then_ns"), on="op", how="left")
    of_meet = pl.when(pl.col("meet").is_not_null()).then(pl.col("then_ns").min().over("meet"))
    changed = own.with_columns(pl.coalesce(of_meet, "then_ns").alias("then_ns")).drop_nulls(("then_ns", "event"))
    if not longer:
        changed = changed.with_columns(pl.min_horizontal("then_ns", "duration_ns").alias("then_ns"))
    parts = [
        op_times(label, inferred.works[at], mine.get_column("event").to_numpy(), mine.get_column("then_ns").to_numpy())
        for (at,), mine in changed.group_by("at", maintain_order=True)
    ]
    return reduce(add, parts)


def _exposed(path: CriticalPath, inferred: Inferred) -> pl.DataFrame:
    parts = path.parts.with_row_index("place")
    mine = parts.filter(class_="communication")
    if mine.is_empty():
        return pl.DataFrame(schema=EXPOSED_SCHEMA)
    at_of = inferred.measured.get_column("at").to_numpy()
    computes = inferred.measured.get_column("what").is_in(("compute", "fused")).to_numpy()
    start, end = mine.get_column("from_ns").to_numpy(), mine.get_column("until_ns").to_numpy()
    at = at_of[mine.get_column("op").to_numpy()]
    exposed = end - start
    for rank in np.unique(at):
        of_rank = computes & (at_of == rank)
        cover = union(path.times.start_ns[: len(at_of)][of_rank], path.times.end_ns[: len(at_of)][of_rank])
        here = at == rank
        exposed[here] -= covered(cover, start[here], end[here])
    others = parts.filter(pl.col("class_").is_in(("compute", "fused", "memory")))
    follows = np.searchsorted(others.get_column("place").to_numpy(), mine.get_column("place").to_numpy())
    phase, family = pl.col("phase").cast(pl.String), pl.col("family").cast(pl.String)
    named = pl.when(phase.is_in(("outside phases", "host threads"))).then(family).otherwise(phase)
    waiters = others.select(named).to_series().append(pl.Series([None], dtype=pl.String))
    sums = (
        mine.select("op", exposed_ns=pl.Series(exposed), waiter=waiters.gather(follows))
        .filter(pl.col("exposed_ns") > 0)
        .group_by("op", maintain_order=True)
        .agg(pl.col("exposed_ns").sum(), pl.col("waiter").last())
    )
    found = sums.join(communication_of(inferred), on="op", how="inner", maintain_order="left")
    return found.select(pl.col(name).cast(dtype) for name, dtype in EXPOSED_SCHEMA.items())
