"""How was each shape's main kernel launched: blocks, waves, occupancy, and the host's time in the call?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import polars as pl

from weftrace.analysis.efficiency.least_times import LeastTime
from weftrace.analysis.efficiency.waves import KINETO_SHARED_BYTES, WAVE_SCHEMA, waves_of
from weftrace.trace.work import Work

Launches: TypeAlias = Mapping[int, Mapping[str, Any]]

_LAUNCH = ("launch_pid", "launch_tid", "launch_ts_ns")


def launches_of(work: Work, events: pl.DataFrame, rated: Sequence[LeastTime]) -> Launches:
    """Shape -> of its main kernel's longest event num_blocks, waves (`WAVE_SCHEMA`), the recorded occupancy in percent,
    and launch_dur_ns, the host's time in the call that launched it. Of shapes with matrix FLOPs alone.

    occupancy: None above 48 KiB of shared memory, of which the profiler's estimate knows nothing.
    """
    products = [(at, of.kernel.row) for at, of in enumerate(rated) if of.cost.executed_flops]
    mains = [(at, row) for at, row in products if row is not None]
    if not mains or work.device is None:
        return {}
    main = pl.DataFrame(mains, schema={"shape": pl.Int64, "row": pl.UInt32}, orient="row")
    table = main.join(events.select("row", "persistent", *_LAUNCH).unique("row", keep="first"), on="row", how="left")
    rows = table.get_column("row")
    asked = work.trace.events.select("num_blocks", "num_threads", "registers", "shared_bytes", "occupancy")[rows]
    told = pl.when(pl.col("shared_bytes").fill_null(0) <= KINETO_SHARED_BYTES).then("occupancy")
    asked = asked.with_columns(told.alias("occupancy"))
    table = table.hstack(asked)
    waves = waves_of(table, work.trace.device(work.device))
    calls = work.trace.events.select("pid", "tid", "ts_ns", launch_dur_ns="dur_ns").filter(
        pl.col("ts_ns").is_in(table.get_column("launch_ts_ns").implode())
    )
    table = table.hstack(waves.select(list(WAVE_SCHEMA))).join(
        calls.unique(("pid", "tid", "ts_ns"), keep="last"),
        left_on=_LAUNCH, right_on=["pid", "tid", "ts_ns"], how="left",
    )  # fmt: skip
    return {each["shape"]: each for each in table.to_dicts()}
