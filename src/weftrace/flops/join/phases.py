"""Which phase of a step does each device event of a trace belong to? That of its launch, by the first rule that fits:

1. optimizer: the innermost named range of the launching thread is `Optimizer.step#...`, `Optimizer.zero_grad#...`, or
   one that the program named so (`record_function("optimizer")`);
2. backward: the launch lies in an `autograd::engine::evaluate_function`, on a thread on which only autograd runs, or
   in a range named "backward". What a checkpoint runs again lies there too, and a trace does not tell it apart;
3. forward: all else that has a launch: the loss, the input's copies and what else the step does.

Events without a launch belong to no phase and are counted apart.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.costs.cost import Phase
from weftrace.trace.containment import open_at_launch
from weftrace.trace.model import is_annotation
from weftrace.trace.work import Work

TRACE_PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)

_WORD = r"^\W*(?:{})(?:[ _-]?(?:pass|step|\d+))*\W*$"
_NAMED = {
    Phase.FORWARD: _WORD.format("forward|fwd"),
    Phase.BACKWARD: _WORD.format("backward|bwd"),
    Phase.OPTIMIZER: r"^Optimizer\.(?:step|zero_grad)#|"
    + _WORD.format("optimi[sz]er|optim|optimizer.step|weight update"),
}
_ENGINE = "autograd::engine::evaluate_function"


def phase_codes(work: Work) -> NDArray[np.int64]:
    """Index into `TRACE_PHASES` of the phase of each of the work's events, in order; -1 where it has no launch."""
    events, linked = work.trace.events, work.events
    codes = np.full(linked.height, -1, np.int64)
    if linked.is_empty():
        return codes
    known = linked.get_column("launch_ts_ns").is_not_null().to_numpy()
    names = events.filter(is_annotation()).get_column("name").cast(pl.String)
    ranges = events.filter(is_annotation()).with_columns(
        pl.coalesce(
            pl.when(names.str.contains(f"(?i){pattern}")).then(pl.lit(number, dtype=pl.Int64))
            for number, pattern in enumerate(_NAMED[phase] for phase in TRACE_PHASES)
        ).alias("code")
    )
    ranges = ranges.filter(pl.col("code").is_not_null())
    named = ranges.get_column("code").gather(open_at_launch(ranges, linked)).fill_null(-1).to_numpy()
    backward, optimizer = TRACE_PHASES.index(Phase.BACKWARD), TRACE_PHASES.index(Phase.OPTIMIZER)
    codes[known] = TRACE_PHASES.index(Phase.FORWARD)
    codes[known & (_in_autograd(events, linked) | (named == backward))] = backward
    codes[known & (named == optimizer)] = optimizer
    return codes


def _in_autograd(events: pl.DataFrame, linked: pl.DataFrame) -> NDArray[np.bool_]:
    """Whether each launch lies in an autograd node's evaluation, or on a thread with nothing outside of one."""
    operators = events.filter(pl.col("cat") == "cpu_op")
    names = operators.get_column("name").unique().cast(pl.String)
    engine_names = names.filter(names.str.starts_with(_ENGINE)).cast(pl.Categorical())
    engine = operators.filter(pl.col("name").is_in(engine_names.implode()))
    if engine.is_empty():
        return np.zeros(linked.height, np.bool_)
    found = open_at_launch(engine, linked).is_not_null().to_numpy().copy()
    threads = engine.select("pid", "tid").unique()
    mine = operators.join(threads, on=["pid", "tid"], how="semi").select(
        pl.col("ts_ns").alias("launch_ts_ns"), pl.col("pid").alias("launch_pid"), pl.col("tid").alias("launch_tid")
    )
    elsewhere = mine.filter(open_at_launch(engine, mine).is_null()).select("launch_pid", "launch_tid").unique()
    own = threads.rename({"pid": "launch_pid", "tid": "launch_tid"}).join(
        elsewhere, on=["launch_pid", "launch_tid"], how="anti"
    )
    on_own = linked.with_row_index("at").join(own, on=["launch_pid", "launch_tid"], how="semi").get_column("at")
    found[on_own.to_numpy()] = True
    return found


def elapsed_ns(events: pl.DataFrame) -> NDArray[np.int64]:
    """How much later each event (in order of start) ends than all before it; the sum is the span."""
    if events.is_empty():
        return np.zeros(0, np.int64)
    starts, ends = (events.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    frontier = np.maximum.accumulate(np.maximum(ends, starts))
    return np.diff(frontier, prepend=starts[0]).astype(np.int64)


def segments(events: pl.DataFrame, codes: NDArray[np.int64]) -> pl.DataFrame:
    """Elapsed time as stretches of one phase. Events that move nothing on do not break a stretch."""
    schema = {"phase": pl.String(), "start_ns": pl.Int64(), "end_ns": pl.Int64()}
    moved = np.flatnonzero(elapsed_ns(events))
    if not len(moved):
        return pl.DataFrame(schema=schema)
    ends = np.maximum.accumulate(events.get_column("end_ns").to_numpy())[moved]
    starts = np.concatenate([[events.get_column("start_ns")[0]], ends[:-1]])
    kinds = codes[moved]
    first = np.flatnonzero(np.concatenate([[True], kinds[1:] != kinds[:-1]]))
    last = np.concatenate([first[1:] - 1, [len(kinds) - 1]])
    words = [*(str(phase) for phase in TRACE_PHASES), ""]
    return pl.DataFrame(
        {"phase": [words[code] for code in kinds[first].tolist()], "start_ns": starts[first], "end_ns": ends[last]},
        schema=schema,
    )
