"""A simulated schedule for Perfetto and chrome://tracing, in one file with its document.

A process a rank, named, with its actions on a thread and, where they take time of a link, its messages and copies on
others; an arrow for each message from the action that makes it to the one that needs it; counters of what the rank
holds. Durations are real: integer nanoseconds of the simulation, as decimal microseconds. Perfetto colours slices by
their names without digits (3F5 as F), so each kind has a colour of its own; chrome://tracing takes `cname`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec
import polars as pl

from weftrace.files.output import write_output
from weftrace.pipeline.dependencies import messages
from weftrace.pipeline.document import pipeline_document
from weftrace.pipeline.planned.streams import COMPUTE, stream_name
from weftrace.pipeline.render.picture import causes, holds_bytes, memory_of
from weftrace.pipeline.simulation import Simulation
from weftrace.units import US

#: Kind -> one of the colours that chrome://tracing has names for: orange, green, light green, blue, olive.
_COLOURS = {
    "F": "thread_state_iowait",
    "B": "rail_load",
    "I": "thread_state_running",
    "W": "rail_response",
    "F&B": "olive",
}
_ROWS = 1 << 15  # events a chunk of text


def write_perfetto(simulation: Simulation, path: str | os.PathLike[str]) -> None:
    """Write the file, compressed where its name ends in .gz or .zst, whole or not at all. Raises `OutputError`."""
    write_output(path, perfetto_text(simulation))


def perfetto_text(simulation: Simulation) -> Iterator[bytes]:
    """The text of the file in chunks: the document's fields (`pipeline_document`), then `traceEvents`."""
    head = {**pipeline_document(simulation), "displayTimeUnit": "ms", "weftrace_simulated": True}
    before = msgspec.json.encode(head)[:-1] + b',"traceEvents":[\n'
    for lines in _lines(simulation):
        for at in range(0, len(lines), _ROWS):
            yield before + "\n".join(lines[at : at + _ROWS].str.join(",\n").to_list()).encode()
            before = b",\n"
    yield b"\n]}\n"


def _lines(simulation: Simulation) -> Iterator[pl.Series]:
    """Events as JSON, kind by kind; of one time, slices come before the arrows that begin and end in them."""
    yield pl.Series([msgspec.json.encode(event).decode() for event in _names(simulation)])
    yield _actions(simulation)
    yield _transfers(simulation)
    yield _arrows(simulation)
    yield from (_counter(simulation, in_bytes) for in_bytes in (False, True)[: 1 + holds_bytes(simulation)])


def _names(simulation: Simulation) -> Iterator[dict[str, object]]:
    """pid 0 means the idle process in Perfetto, so pids are ranks + 1."""
    streams = simulation.times.plan.ops.select("rank", "stream").unique().sort("rank", "stream")
    for rank in range(simulation.schedule.num_ranks):
        place = {"ph": "M", "pid": rank + 1, "tid": 0}
        yield {"name": "process_name", **place, "args": {"name": f"rank {rank}"}}
        yield {"name": "process_sort_index", **place, "args": {"sort_index": rank}}
    for rank, stream in streams.iter_rows():
        place = {"ph": "M", "pid": rank + 1, "tid": stream}
        yield {
            "name": "thread_name",
            **place,
            "args": {"name": stream_name(stream)},
        }
        yield {"name": "thread_sort_index", **place, "args": {"sort_index": stream}}


def _actions(simulation: Simulation) -> pl.Series:
    """A slice an action, called as it is written: 3F5, 0F4&7B1."""
    actions = simulation.actions
    kind = pl.col("kind").cast(pl.String)
    is_pair = kind == "F&B"
    forward = pl.concat_str("stage", pl.lit("F"), "micro_batch")
    name = pl.when(is_pair).then(pl.concat_str(forward, pl.lit("&"), "back_stage", pl.lit("B"), "back_micro_batch"))
    actions = actions.with_columns(name=name.otherwise(pl.concat_str("stage", kind, "micro_batch")))
    cause = pl.Series(causes(simulation))
    waited = actions.select("name", "rank")[cause.clip(0).to_list()] if len(actions) else actions.select("name", "rank")
    fragment = pl.concat_str(pl.lit(',"waited for":"'), "name", pl.lit(" of rank "), "rank", pl.lit('"'))
    waited_for = waited.select(fragment).to_series()
    back = [pl.lit(',"back_stage":'), "back_stage", pl.lit(',"back_micro_batch":'), "back_micro_batch"]
    line = pl.concat_str(
        pl.lit('{"ph":"X","cat":"pipeline","name":"'), "name",
        pl.lit('","pid":'), pl.col("rank") + 1, pl.lit(f',"tid":{COMPUTE},"ts":'), _us("start_ns"),
        pl.lit(',"dur":'), _us(pl.col("end_ns") - pl.col("start_ns")),
        pl.lit(',"cname":"'), kind.replace_strict(_COLOURS), pl.lit('","args":{"kind":"'), kind,
        pl.lit('","stage":'), "stage", pl.lit(',"micro_batch":'), "micro_batch",
        pl.when(is_pair).then(pl.concat_str(back)).otherwise(pl.lit("")),
        pl.when(cause >= 0).then(waited_for).otherwise(pl.lit("")), pl.lit("}}"),
    )  # fmt: skip
    return actions.select(line=line).to_series()


def _transfers(simulation: Simulation) -> pl.Series:
    """A slice a message or copy that takes time of its link."""
    ops = simulation.times.ops[len(simulation.schedule) :].filter(pl.col("end_ns") > pl.col("start_ns"))
    line = pl.concat_str(
        pl.lit('{"ph":"X","cat":"transfer","name":"'), pl.col("name").cast(pl.String), pl.lit(" "), "micro_batch",
        pl.lit('","pid":'), pl.col("rank") + 1, pl.lit(',"tid":'), "stream", pl.lit(',"ts":'), _us("start_ns"),
        pl.lit(',"dur":'), _us(pl.col("end_ns") - pl.col("start_ns")),
        pl.lit(',"args":{"micro_batch":'), "micro_batch", pl.lit("}}"),
    )  # fmt: skip
    return ops.select(line=line).to_series()


def _arrows(simulation: Simulation) -> pl.Series:
    """An arrow a message between two ranks: from where its output is ready to where it is needed, or as near to that as
    lies within both slices, for an arrow is bound to the slice that is open at its time."""
    schedule, costs = simulation.schedule, simulation.costs
    actions = simulation.actions.with_columns(row=pl.int_range(pl.len(), dtype=pl.UInt32))
    found = messages(schedule)
    for end, row in (("from", "on"), ("to", "op")):
        columns = {"row": row, **{name: f"{name}_{end}" for name in ("rank", "kind", "start_ns", "end_ns")}}
        found = found.join(actions.select(*columns).rename(columns), on=row, maintain_order="left")
    has_time = [pl.col(f"end_ns_{end}") > pl.col(f"start_ns_{end}") for end in ("from", "to")]
    found = found.filter(pl.col("rank_from") != pl.col("rank_to"), *has_time).with_row_index("id", offset=1)
    ready = _inside(found, "from", costs.output_ready, otherwise=1.0)
    needed = _inside(found, "to", costs.input_needed, otherwise=0.0)
    what = pl.when("is_gradient").then(pl.lit("gradient")).otherwise(pl.lit("activation"))
    head: list[pl.Expr | str] = [
        pl.lit('","cat":"message","name":"'),
        what,
        pl.lit('","id":'),
        pl.col("id"),
        pl.lit(f',"tid":{COMPUTE},"pid":'),
    ]
    ends = [
        pl.concat_str(pl.lit('{"ph":"s'), *head, pl.col("rank_from") + 1, pl.lit(',"ts":'), _us(ready), pl.lit("}")),
        pl.concat_str(
            pl.lit('{"ph":"f","bp":"e'), *head, pl.col("rank_to") + 1, pl.lit(',"ts":'), _us(needed), pl.lit("}")
        ),
    ]
    return found.select(line=pl.concat_str(*ends, separator=",\n")).to_series()


def _inside(found: pl.DataFrame, end: str, parts: tuple[float, float], *, otherwise: float) -> pl.Expr:
    """A time within the action at one end: of an F&B that part of it, its forward's or its backward's; 1 ns before the
    end at the latest."""
    start, until = pl.col(f"start_ns_{end}"), pl.col(f"end_ns_{end}")
    part = pl.when("is_gradient").then(pl.lit(float(parts[1]))).otherwise(pl.lit(float(parts[0])))
    part = pl.when(pl.col(f"kind_{end}") == "F&B").then(part).otherwise(pl.lit(otherwise))
    return pl.min_horizontal(start + (part * (until - start)).round().cast(pl.Int64), until - 1)


def _counter(simulation: Simulation, in_bytes: bool) -> pl.Series:
    curve = memory_of(simulation, list(range(simulation.schedule.num_ranks)), in_bytes)
    name, unit = ("bytes held", "bytes") if in_bytes else ("activations held", "chunks")
    line = pl.concat_str(
        pl.lit(f'{{"ph":"C","name":"{name}","pid":'), pl.col("rank") + 1, pl.lit(',"ts":'), _us("time_ns"),
        pl.lit(f',"args":{{"{unit}":'), "held", pl.lit("}}"),
    )  # fmt: skip
    return curve.select(line=line).to_series()


def _us(time_ns: str | pl.Expr) -> pl.Expr:
    """Nanoseconds as decimal microseconds, exact: 1234567 as 1234.567."""
    time = pl.col(time_ns) if isinstance(time_ns, str) else time_ns
    return pl.concat_str(time // US, pl.lit("."), (time % US).cast(pl.String).str.zfill(3))
