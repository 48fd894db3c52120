"""All ranges of the host's threads, one kind of row for annotations, operators, Python frames and calls."""

from __future__ import annotations

import polars as pl

from weftrace.analysis.waiting.host_paths import ANNOTATION, FRAME, KINDS, OPERATOR, RUNTIME_CALL
from weftrace.trace.model import Trace, is_annotation, is_launch

#: Annotations that say nothing of what the host does.
_NO_ACTIVITY = r"^(ProfilerStep#|PyTorch Profiler)"


def host_ranges(trace: Trace, *, least_ns: int = 1, which: pl.Expr | None = None) -> pl.DataFrame:
    """Ranges of the host's threads, from a duration on: name, kind (its number in KINDS), pid, tid, ts_ns, dur_ns, code
    (of the name). which: of the events, those that count."""
    which = pl.lit(True) if which is None else which
    events = trace.events.select("cat", "name", "pid", "tid", "ts_ns", "dur_ns").filter(
        pl.col("cat").is_in(("user_annotation", "cpu_op", "python_gc")) | is_launch(),
        pl.col("dur_ns") >= least_ns,
        which,
    )
    kind = (
        pl.when(is_launch()).then(KINDS.index(RUNTIME_CALL)).when(is_annotation()).then(KINDS.index(ANNOTATION))
        .otherwise(KINDS.index(OPERATOR))
    )  # fmt: skip
    names = events.get_column("name").unique()
    steps = names.filter(names.cast(pl.String).str.contains(_NO_ACTIVITY)).implode()
    columns = ("name", "kind", "pid", "tid", "ts_ns", "dur_ns")
    parts = [events.filter(~pl.col("name").is_in(steps)).with_columns(kind.cast(pl.Int8).alias("kind")).select(columns)]
    if trace.frames is not None:
        frames = trace.frames.filter(pl.col("cat") == "python_function", pl.col("dur_ns") >= least_ns, which)
        parts.append(frames.with_columns(pl.lit(KINDS.index(FRAME), pl.Int8).alias("kind")).select(columns))
    return pl.concat(parts).with_columns(pl.col("name").to_physical().cast(pl.Int64).alias("code"))


def spelling(ranges: pl.DataFrame) -> dict[int, str]:
    """The name of each code."""
    table = ranges.select("code", "name").unique("code").with_columns(pl.col("name").cast(pl.String))
    return dict(table.iter_rows())
