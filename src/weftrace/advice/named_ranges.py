"""What of a plan lies inside ranges of the host that a pattern names: operators, annotations, Python frames, modules.

Device work belongs to the ranges that were open, on the launching thread, at its launch. Of host work it is the part
that lies inside.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.analysis.call_paths import call_paths
from weftrace.analysis.intervals import covered, union
from weftrace.errors import AdviceError, TraceError
from weftrace.plan.inference.values import Inferred
from weftrace.trace.model import Trace, is_annotation

#: Ranges that a selector names by its form.
OPERATOR, ANNOTATION, FRAME, MODULE = "operator", "annotation", "frame", "module"
FORMS = (OPERATOR, ANNOTATION, FRAME, MODULE)
#: Ranges in which a host thread works.
ON_HOST = (OPERATOR, ANNOTATION, FRAME)

_Floats = NDArray[np.float64]
_Bools = NDArray[np.bool_]
_Ints = NDArray[np.int64]
_SPANS = {"pid": pl.Categorical(), "tid": pl.Categorical(), "start_ns": pl.Int64(), "end_ns": pl.Int64()}


def finds(column: str, pattern: str) -> pl.Expr:
    """Whether a regular expression is found in a column. Raises `AdviceError` where it is none."""
    try:
        pl.select(pl.lit("").str.contains(pattern))
    except pl.exceptions.ComputeError as error:
        raise AdviceError(f"{pattern!r} is no regular expression (look-around is not known).") from error
    return pl.col(column).cast(pl.String).str.contains(pattern).fill_null(False)


def launched_inside(inferred: Inferred, form: str, pattern: str) -> _Bools:
    """Ops on a device that were launched inside a range of this form whose name the pattern finds, [ops]. A backward
    operator belongs to the module whose forward it is of.

    Raises `AdviceError` where the trace does not tell such ranges.
    """
    mask = np.zeros(len(inferred.plan), np.bool_)
    for at, work in enumerate(inferred.works):
        rows, events = device_rows(inferred, at)
        launched = work.events.select("launch_pid", "launch_tid", "launch_ts_ns")[events]
        inside = _in_modules(work.trace, launched, pattern) if form == MODULE else _open_at(
            spans_of(work.trace, (form,), pattern), launched
        )  # fmt: skip
        mask[rows[inside]] = True
    return mask


def inside_on_host(inferred: Inferred, spans: Sequence[pl.DataFrame]) -> _Floats:
    """Of each op of a host thread the share of its own time, without waiting, that lies in spans, [ops]; else 0.

    spans: of each of `Inferred.works`, frames of pid, tid, start_ns and end_ns, as the trace has them.
    """
    share = np.zeros(len(inferred.plan))
    ops = inferred.plan.ops.select("stream", "duration_ns").hstack(
        inferred.measured.select("at", "event", "call", "start_ns", "end_ns")
    )
    on_host = ops.with_row_index("op").filter(pl.col("event").is_null())
    for at, (work, cover) in enumerate(zip(inferred.works, spans, strict=True)):
        mine = on_host.filter(at=at)
        if cover.is_empty() or mine.is_empty():
            continue
        calls = mine.drop_nulls("call")
        known = work.trace.events.select("pid", "tid", "ts_ns", "dur_ns")[calls.get_column("call")]
        calls = calls.select("stream", came_ns="start_ns", took_ns=pl.col("end_ns") - pl.col("start_ns")).hstack(known)
        if calls.is_empty():
            continue
        cover = _moved(cover, calls, inferred.origin_ns if len(inferred.works) == 1 else None)
        threads = mine.join(calls.select("stream", "pid", "tid").unique("stream"), on="stream", maintain_order="left")
        by_thread = cover.partition_by("pid", "tid", as_dict=True)
        for thread, work_of in threads.partition_by("pid", "tid", as_dict=True).items():
            if (there := by_thread.get(thread)) is not None:
                ends = work_of.get_column("end_ns").to_numpy()
                lasts = np.maximum(work_of.get_column("duration_ns").to_numpy(), 1)
                merged = union(there.get_column("start_ns").to_numpy(), there.get_column("end_ns").to_numpy())
                share[work_of.get_column("op").to_numpy()] = covered(merged, ends - lasts, ends) / lasts
    return share


def began_inside(inferred: Inferred, pattern: str) -> _Bools:
    """Ops of host threads that began inside an operator, annotation or Python frame that the pattern finds, [ops]."""
    mask = np.zeros(len(inferred.plan), np.bool_)
    for at, work in enumerate(inferred.works):
        calls = inferred.measured.select("at", "call").with_row_index("op").filter(at=at).drop_nulls("call")
        known = work.trace.events.select(launch_pid="pid", launch_tid="tid", launch_ts_ns="ts_ns")
        inside = _open_at(spans_of(work.trace, ON_HOST, pattern), known[calls.get_column("call")])
        mask[calls.get_column("op").to_numpy()[inside]] = True
    return mask


def spans_of(trace: Trace, forms: Sequence[str], pattern: str) -> pl.DataFrame:
    """Ranges of these forms whose name the pattern finds: pid, tid, start_ns, end_ns.

    Raises `AdviceError` where Python frames alone are asked for and the trace has none.
    """
    if FRAME in forms and len(forms) == 1 and trace.frames is None:
        unread = bool(trace.quality.skipped.get("python_function"))
        how = "read it with its Python frames (frames=True)" if unread else "record with with_stack=True"
        raise AdviceError(f"{trace.path or 'this trace'} has no Python frames: {how}.")
    parts = [pl.DataFrame(schema=_SPANS)]
    for form in forms:
        rows = trace.frames if form == FRAME else trace.events
        if rows is None:
            continue
        wanted = {OPERATOR: pl.col("cat") == "cpu_op", ANNOTATION: is_annotation()}.get(form, pl.lit(True))
        names = rows.select(pl.col("name").filter(wanted).unique()).filter(finds("name", pattern)).to_series()
        rows = rows.filter(wanted & pl.col("name").is_in(names.implode()))
        parts.append(rows.select("pid", "tid", start_ns="ts_ns", end_ns=pl.col("ts_ns") + pl.col("dur_ns")))
    return pl.concat(parts)


def device_rows(inferred: Inferred, at: int) -> tuple[_Ints, _Ints]:
    """Ops of one of `Inferred.works` that ran on its device: rows of the plan, and of `Work.events`."""
    rows = inferred.measured.select("at", "event").with_row_index("op").filter(at=at).drop_nulls("event")
    return rows.get_column("op").to_numpy().astype(np.int64), rows.get_column("event").to_numpy().astype(np.int64)


def _in_modules(trace: Trace, launched: pl.DataFrame, pattern: str) -> _Bools:
    try:
        paths = call_paths(trace, launched, "module")
    except TraceError as error:
        raise AdviceError(str(error)) from error
    if paths.told_by == "nothing":
        raise AdviceError(f"{trace.path or 'this trace'} has no modules: record with with_stack or with_modules=True.")
    full: list[str] = []
    for name, parent in zip(paths.names, paths.parents, strict=True):
        full.append(f"{full[parent]}.{name}" if parent >= 0 else name)
    found = pl.DataFrame({"name": full}, schema={"name": pl.String}).select(finds("name", pattern)).to_series()
    named = np.append(found.to_numpy(), False)  # the last stands for outside, -1
    mask: _Bools = named[paths.node]
    return mask


def _open_at(spans: pl.DataFrame, launched: pl.DataFrame) -> _Bools:
    """Whether each launch lies in a span of its thread."""
    inside = np.zeros(launched.height, np.bool_)
    by_thread = spans.partition_by("pid", "tid", as_dict=True)
    for thread, mine in launched.with_row_index("at").partition_by("launch_pid", "launch_tid", as_dict=True).items():
        if (there := by_thread.get(thread)) is not None:
            merged = union(there.get_column("start_ns").to_numpy(), there.get_column("end_ns").to_numpy())
            at_ns = mine.get_column("launch_ts_ns").to_numpy()
            inside[mine.get_column("at").to_numpy()] = covered(merged, at_ns, at_ns + 1) > 0
    return inside


def _moved(cover: pl.DataFrame, calls: pl.DataFrame, origin_ns: int | None) -> pl.DataFrame:
    """Spans on the clock of the plan: less its origin; None: of joined ranks, as their calls were laid on it."""
    own, by = np.zeros(1, np.int64), np.full(1, -(origin_ns or 0))
    if origin_ns is None:  # calls that are one op, as long as it
        whole = calls.filter((pl.col("took_ns") - pl.col("dur_ns")).abs() <= 1 + pl.col("dur_ns") / 1_000)
        whole = (whole if len(whole) else calls).sort("ts_ns")
        own, came = (whole.get_column(name).to_numpy() for name in ("ts_ns", "came_ns"))
        by = came - own
    moved = {}
    for name in ("start_ns", "end_ns"):
        at_ns = cover.get_column(name).to_numpy()
        more = np.interp((at_ns - own[0]).astype(np.float64), (own - own[0]).astype(np.float64), by - by[0])
        moved[name] = pl.Series(at_ns + by[0] + np.rint(more).astype(np.int64))
    return cover.with_columns(**moved)
