"""What else is known of the timeline's events: how a kernel was launched, what an operator was called with, what moved.

Few events differ in this, so each says by a number which row of a small table is its own. What hangs together in time
(launch, operators around it, ranges) the page finds by itself.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt
import polars as pl

from weftrace.analysis.call_paths import call_paths
from weftrace.analysis.hidden_communication import DTYPE_BYTES
from weftrace.analysis.operator_times import operator_rows
from weftrace.analysis.phase_times import with_sms
from weftrace.report.timeline_types import FactsRow, TimelineFacts
from weftrace.trace.model import Trace

#: Columns that are texts, numbered in `texts`; the others are numbers. Where there would be too many rows, texts are
#: given up, from the last one on.
_TEXTS = ("collective", "dtype", "group", "ranks", "operator", "grid", "block", "types", "shapes", "stack")
_NUMBERS = ("sms", "sms_exact", "registers", "shared_bytes", "occupancy", "group_size", "graph", "bytes", "in_elems",
            "out_elems")  # fmt: skip
MAX_ROWS = (1 << 16) - 1  # the number of a row takes two bytes
MAX_CHARS = 1_000_000  # of all texts; beyond it each is cut shorter
_MAX_TEXT = 1024  # of one text


def timeline_facts(
    events: pl.DataFrame, trace: Trace, work_events: pl.DataFrame | None, *, launched: npt.NDArray[np.int64]
) -> tuple[TimelineFacts, npt.NDArray[np.int64]]:
    """The table, and for each event 1 + its row there, or 0.

    events: the timeline's, in its order, with `row` (in `trace.events`), `on_device` and `device`. work_events: as in
    `timeline_payload`. launched: for each of the device events, which come first, whether its launch is in the timeline
    (0: it is not).
    """
    summary = _described_events(events, trace, work_events)
    alone = np.zeros(events.height, np.bool_)
    alone[: launched.size] = launched == 0
    summary = _with_frames(_with_operator(summary, trace, work_events, pl.Series(alone)), trace, work_events)
    for columns in ((*_NUMBERS, *_TEXTS[:end]) for end in range(len(_TEXTS), -1, -1)):
        rows = summary.select(columns).unique(maintain_order=True)
        if rows.height <= MAX_ROWS:
            break
    rows = rows.filter(pl.any_horizontal(pl.all().is_not_null())).with_row_index("number", offset=1)
    numbers = summary.select(columns).join(rows, on=columns, how="left", nulls_equal=True, maintain_order="left")
    texts, table = _numbered(rows.drop("number"))
    return {"texts": texts, "rows": table}, numbers.get_column("number").fill_null(0).cast(pl.Int64).to_numpy()


def _described_events(events: pl.DataFrame, trace: Trace, work_events: pl.DataFrame | None) -> pl.DataFrame:
    """What the trace says of each event; of device events what `Work` knows comes first."""
    rows = events.get_column("row")
    source = _gathered(trace.events, rows).select(
        "num_blocks", "num_threads", "registers", "shared_bytes", "group_size", "in_elems", "out_elems",
        pl.when(pl.col("occupancy") > 0).then("occupancy"),  # 0 is what Kineto writes where it knows none
        pl.col("graph_id").alias("graph"),
        pl.col("moved_bytes").alias("bytes"),
        pl.col("group_ranks").cast(pl.String).alias("ranks"),
        pl.col("input_shapes").cast(pl.String).alias("shapes"),
        pl.col("input_types").cast(pl.String).alias("types"),
        pl.col("call_stack").cast(pl.String).alias("stack"),
        pl.col("grid", "block", "collective", "dtype", "group").cast(pl.String),
    ).with_columns(events.select("row", "on_device"))  # fmt: skip
    counted = _counted(trace, work_events)
    summary = source.join(counted, on="row", how="left", maintain_order="left", suffix="_work")
    payload = pl.col("payload_elems") * pl.col("dtype_work").replace_strict(DTYPE_BYTES, default=None)
    return summary.with_columns(
        pl.coalesce("grid", pl.format("[{},1,1]", "num_blocks")),
        pl.coalesce("block", pl.format("[{},1,1]", "num_threads")),
        pl.coalesce("bytes", payload),
        *(pl.coalesce(f"{name}_work", name).alias(name) for name in ("collective", "dtype", "group", "group_size")),
    )


def _counted(trace: Trace, work_events: pl.DataFrame | None) -> pl.DataFrame:
    """Of the events that the report counts: SMs, and what the host's records say of a collective."""
    texts = ("collective", "dtype", "group")
    if work_events is None:
        schema = {"row": pl.Int64(), "sms": pl.Int64(), "sms_exact": pl.Int64(), "payload_elems": pl.Int64()}
        return pl.DataFrame(schema=schema | dict.fromkeys(texts, pl.String()) | {"group_size": pl.Int32()})
    num_sms = trace.device(trace.device_ids[0]).num_sms if trace.device_ids else None
    return with_sms(work_events, num_sms).select(
        pl.col("row").cast(pl.Int64),
        "sms",
        pl.when("persistent").then(1).alias("sms_exact").cast(pl.Int64),
        "payload_elems",
        pl.col(texts).cast(pl.String),
        "group_size",
    )


def _with_operator(
    summary: pl.DataFrame, trace: Trace, work_events: pl.DataFrame | None, alone: pl.Series
) -> pl.DataFrame:
    """The operator of device events that have no launch in the timeline, by which the page would find it; and what it
    was called with. Where no launch is known at all, an External id tells the operator."""
    summary = summary.with_columns(operator=pl.lit(None, pl.String))
    if work_events is None or not alone.any():
        return summary
    missing = summary.select("row").filter(alone)
    linked = work_events.with_columns(pl.col("row").cast(pl.Int64)).join(missing, on="row", how="semi")
    of_launch = linked.select("row", operator_rows(trace.events, linked)).drop_nulls()
    rest = missing.join(of_launch, on="row", how="anti")
    found = pl.concat([of_launch, _by_external_id(trace.events, rest)])
    source = _gathered(trace.events, found.get_column("operator")).select(
        pl.col("name").cast(pl.String).alias("operator"),
        pl.col("input_shapes").cast(pl.String).alias("shapes"),
        pl.col("input_types").cast(pl.String).alias("types"),
        pl.col("call_stack").cast(pl.String).alias("stack"),
    )
    found = found.select("row").hstack(source)
    summary = summary.join(found, on="row", how="left", maintain_order="left", suffix="_of")
    return summary.with_columns(
        pl.coalesce(f"{name}_of", name).alias(name) for name in ("operator", "shapes", "types", "stack")
    )


def _gathered(events: pl.DataFrame, rows: pl.Series) -> pl.DataFrame:
    """The columns that are shown of events, of some rows: few of a large trace, so that no others become texts."""
    return events.select(
        "name", "num_blocks", "num_threads", "registers", "shared_bytes", "group_size", "in_elems", "out_elems",
        "occupancy", "graph_id", "moved_bytes", "group_ranks", "input_shapes", "input_types", "call_stack", "grid",
        "block", "collective", "dtype", "group",
    )[rows]  # fmt: skip


def _by_external_id(events: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Columns row, operator: device events and the operator whose External id they bear, where it is one operator's."""
    numbered = events.select("external_id", "cat").with_row_index("operator").cast({"operator": pl.Int64})
    operators = numbered.filter(pl.col("cat") == "cpu_op", pl.col("external_id") > 0)
    operators = operators.filter(pl.len().over("external_id") == 1).select("operator", "external_id")
    bearing = rows.with_columns(events.get_column("external_id").gather(rows.get_column("row")))
    return bearing.join(operators, on="external_id").select("row", "operator")


def _with_frames(summary: pl.DataFrame, trace: Trace, work_events: pl.DataFrame | None) -> pl.DataFrame:
    """The Python functions from which device events were launched, innermost first; where frames were read."""
    if work_events is None or trace.frames is None or trace.frames.is_empty():
        return summary
    paths = call_paths(trace, work_events, "line")
    stacks: list[str | None] = []
    for name, parent in zip(paths.names, paths.parents, strict=True):  # a parent comes before its children
        above = stacks[parent] if parent >= 0 else None
        stacks.append(name if above is None else f"{name};{above}"[: 2 * _MAX_TEXT])
    codes = pl.Series(paths.node)
    found = pl.DataFrame(
        {
            "row": work_events.get_column("row").cast(pl.Int64),
            "frames": pl.Series([*stacks, None], dtype=pl.String).gather(codes.set(codes < 0, len(stacks))),
        }
    )
    summary = summary.join(found, on="row", how="left", maintain_order="left")
    return summary.with_columns(pl.coalesce("stack", "frames").alias("stack"))


def _numbered(rows: pl.DataFrame) -> tuple[list[str], list[FactsRow]]:
    """The texts of a table, and its rows with the numbers of their texts; without what a row does not say."""
    numbers: dict[str, int] = {}
    texts = set(_TEXTS)
    table = [
        {
            key: numbers.setdefault(value, len(numbers)) if key in texts else value
            for key, value in row.items()
            if value is not None
        }
        for row in rows.to_dicts()
    ]
    limit = _MAX_TEXT
    if sum(min(len(text), limit) for text in numbers) > MAX_CHARS:
        limit = max(16, MAX_CHARS // len(numbers))
    cut = [text if len(text) <= limit else text[: limit - 1] + "…" for text in numbers]
    return cut, cast("list[FactsRow]", table)
