"""How fast does a serving engine run? Its iterations (prefill, decode, mixed, verify), and a summary of each kind.

An iteration is a range of the host that vLLM, SGLang or TensorRT-LLM named (`weftrace.trace.engine_steps`). Its device
work is what it launched, though that runs after the range has ended; its window is from the first start to the last end
of that work. What nothing launched within an iteration (sampling, where an engine names the model's forward alone) is
of none, and has a row of its own in the summary.
"""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import polars as pl
from msgspec import Meta

from weftrace.analysis.intervals import Intervals, covered, of_events, totals_by_group
from weftrace.analysis.waiting.idle_account import unrecorded_time
from weftrace.files.columns import Shown, frame_schema
from weftrace.trace.containment import open_at_launch
from weftrace.trace.engine_steps import ENGINE_NAMES, find_engine_steps
from weftrace.trace.model import Trace, is_launch
from weftrace.trace.work import Work, as_work
from weftrace.units import S

#: Rows of the summary for iterations whose names do not tell their kind, and for device work of no iteration.
NOT_TOLD, OUTSIDE = "not told", "outside"

Count = Annotated[int, Meta(ge=0)]
_LAUNCH = ("launch_ts_ns", "launch_pid", "launch_tid")


class EngineStepRow(TypedDict):
    """An iteration of a serving engine, in order of time: what its name tells of requests and tokens, and what the
    device did for it. What a name does not tell is left empty."""

    number: Annotated[Count, Meta(description="Iterations counted from 0."), Shown("#")]
    engine: str
    kind: Annotated[
        str | None,
        Meta(
            description="prefill, decode, or mixed of both; verify: the model checks proposed tokens; draft: a smaller "
            "model proposes them; idle: no requests, as on a data-parallel rank that must take part."
        ),
    ]
    requests: Annotated[Count | None, Meta(description="Requests in the batch, padding left out.")]
    padded_requests: Annotated[
        Count | None, Meta(description="Requests that the graph was captured for."), Shown("padded to")
    ]
    tokens: Annotated[Count | None, Meta(description="Query tokens of all requests.")]
    context_requests: Annotated[
        Count | None,
        Meta(description="Requests without an output token yet, chunks of a prompt included."),
        Shown("prefills"),
    ]
    context_tokens: Annotated[
        Count | None, Meta(description="Query tokens of context requests."), Shown("prefill tokens")
    ]
    context_kv_tokens: Annotated[
        Count | None, Meta(description="Sum of the KV lengths of context requests."), Shown("prefill KV")
    ]
    generation_requests: Annotated[
        Count | None, Meta(description="Requests that have output tokens already."), Shown("decodes")
    ]
    generation_tokens: Annotated[
        Count | None,
        Meta(description="Query tokens of these; with speculation more than requests: proposed tokens are checked."),
        Shown("decode tokens"),
    ]
    generation_kv_tokens: Annotated[
        Count | None, Meta(description="Sum of the KV lengths of these."), Shown("decode KV")
    ]
    start_ns: Annotated[
        int | None, Meta(description="Start of its device window, from the start of the device's span."), Shown("start")
    ]
    window_ns: Annotated[
        Count | None,
        Meta(description="From the first start to the last end of the device work that the iteration launched."),
        Shown("window"),
    ]
    overlap_ns: Annotated[
        Count | None,
        Meta(description="Of the window, what lies in windows of earlier iterations; empty for none."),
        Shown("overlap"),
    ]
    busy_ns: Annotated[Count, Meta(description="Union of that work."), Shown("busy")]
    num_launches: Annotated[Count, Meta(description="Calls that launched it."), Shown("launches")]
    num_graphs: Annotated[Count, Meta(description="Of these, launches of a captured graph."), Shown("graphs")]
    gap_ns: Annotated[
        Count | None,
        Meta(
            description="From the end of the window to the start of the next iteration's; 0 where that starts earlier."
        ),
        Shown("gap after"),
    ]
    unrecorded_ns: Annotated[
        Count | None,
        Meta(description="Time in the window with events missing from the file; empty if it is not known."),
        Shown("unrecorded"),
    ]


class EngineKindRow(TypedDict):
    """Iterations of a serving engine of one kind; the kind with most device time first. Rates are per second of device
    time, what is known to be unrecorded left out, and count only iterations whose names tell their tokens. In a
    mixed step prefill and decode share the time, and each rate counts all of it."""

    kind: Annotated[
        str,
        Meta(description="As of an iteration; outside: device work that was launched within none."),
    ]
    num_steps: Annotated[Count, Shown("steps")]
    requests: Annotated[float | None, Meta(description="Median of the requests in a batch."), Shown("requests")]
    device_ns: Annotated[
        Count,
        Meta(description="Sum of the device windows, overlaps counted once; of outside: its busy time."),
        Shown("device time"),
    ]
    median_ns: Annotated[Count | None, Meta(description="Median device window."), Shown("median")]
    busy_ns: Annotated[Count, Meta(description="Sum of the busy times."), Shown("busy")]
    launches_per_step: Annotated[float | None, Meta(description="Mean of the launch calls."), Shown("launches")]
    graphs_per_step: Annotated[float | None, Meta(description="Mean of the launches of graphs."), Shown("graphs")]
    prefill_tokens_per_s: Annotated[
        Count | None, Meta(description="Context tokens / device time."), Shown("prefill tokens/s")
    ]
    output_tokens_per_s: Annotated[
        Count | None,
        Meta(description="Generation requests / device time: each gets one token or more."),
        Shown("output tokens/s"),
    ]
    most_output_tokens_per_s: Annotated[
        Count | None,
        Meta(
            description="Generation tokens / device time, where they are more than requests: with speculation, as "
            "if each proposed token were accepted. How many were, names do not tell."
        ),
        Shown("at most"),
    ]
    gap_ns: Annotated[Count | None, Meta(description="Sum of the gaps after these iterations."), Shown("gaps after")]
    unrecorded_ns: Annotated[Count | None, Meta(description="Sum of the unrecorded times."), Shown("unrecorded")]


def engine_steps(source: Trace | Work, *, unrecorded: Intervals | None = None) -> pl.DataFrame:
    """The iterations of a serving engine on one device: a frame of `EngineStepRow` [iterations], in order of time.

    unrecorded: when work ran that the file lacks (absolute ns), by default as the account of idle time finds it; null
    in each row where there is none. Of a part of a trace only
    iterations that launched something in it. Empty where ranges carry no names of a known engine, or nothing ran on a
    device. Raises TraceError when a Trace holds several devices.
    """
    work = as_work(source)
    found = find_engine_steps(work.trace.events) if work.basis == "device" else None
    if found is None or found.is_empty():
        return pl.DataFrame(schema=frame_schema(EngineStepRow))
    return _rows(work, found, _with_iteration(work, found), unrecorded or _lacks(work))


def engine_kinds(source: Trace | Work, *, unrecorded: Intervals | None = None) -> pl.DataFrame:
    """A summary of each kind of iteration: a frame of `EngineKindRow`, the kind with most device time first, and
    last the device work of no iteration.

    unrecorded, and what is raised: as of `engine_steps`.
    """
    work = as_work(source)
    found = find_engine_steps(work.trace.events) if work.basis == "device" else None
    if found is None or found.is_empty():
        return pl.DataFrame(schema=frame_schema(EngineKindRow))
    events = _with_iteration(work, found)
    rows = _rows(work, found, events, unrecorded or _lacks(work))
    once = pl.col("window_ns") - pl.col("overlap_ns").fill_null(0)
    recorded = once - pl.col("unrecorded_ns").fill_null(0)
    requests, tokens = pl.col("generation_requests"), pl.col("generation_tokens")
    kinds = rows.group_by(pl.col("kind").fill_null(NOT_TOLD)).agg(
        num_steps=pl.len(),
        requests=pl.col("requests").median(),
        device_ns=once.sum(),
        median_ns=pl.col("window_ns").median().round(),
        busy_ns=pl.col("busy_ns").sum(),
        launches_per_step=pl.col("num_launches").mean(),
        graphs_per_step=pl.col("num_graphs").mean(),
        prefill_tokens_per_s=_rate(pl.col("context_tokens"), recorded),
        output_tokens_per_s=_rate(requests, recorded),
        most_output_tokens_per_s=pl.when((tokens > requests).any()).then(_rate(tokens, recorded)),
        gap_ns=pl.when(pl.col("gap_ns").count() > 0).then(pl.col("gap_ns").sum()),
        unrecorded_ns=pl.when(pl.col("unrecorded_ns").count() > 0).then(pl.col("unrecorded_ns").sum()),
    )
    kinds = kinds.sort("device_ns", "kind", descending=[True, False])
    return pl.concat([kinds, _outside(events)], how="diagonal_relaxed").select(
        pl.col(name).cast(dtype) for name, dtype in frame_schema(EngineKindRow).items()
    )


def _lacks(work: Work) -> Intervals | None:
    found = unrecorded_time(work)
    return found if len(found.starts) else None


def _with_iteration(work: Work, found: pl.DataFrame) -> pl.DataFrame:
    """The device events with the position of the iteration that launched each; null where none did."""
    events = work.events.select("start_ns", "end_ns", *_LAUNCH)
    return events.with_columns(open_at_launch(found, events).cast(pl.Int64).alias("iteration"))


def _rows(work: Work, found: pl.DataFrame, events: pl.DataFrame, unrecorded: Intervals | None) -> pl.DataFrame:
    owned = events.filter(pl.col("iteration").is_not_null())
    of, begin, finish = (owned.get_column(name).to_numpy() for name in ("iteration", "start_ns", "end_ns"))
    busy = totals_by_group(of, begin, finish, found.height)
    windows = owned.group_by("iteration").agg(pl.col("start_ns").min(), pl.col("end_ns").max(), *_launches(work))
    numbered = found.with_columns(pl.int_range(pl.len()).alias("iteration"), pl.Series("busy_ns", busy))
    rows = numbered.join(windows, on="iteration", how="left", maintain_order="left")
    if work.step is not None or work.window_ns is not None:
        rows = rows.filter(pl.col("start_ns").is_not_null())
    start, end = pl.col("start_ns"), pl.col("end_ns")
    earlier_end = end.cum_max().forward_fill().shift(1)
    rows = rows.with_columns(alone_ns=pl.max_horizontal(start, pl.min_horizontal(earlier_end.fill_null(start), end)))
    return rows.select(
        number=pl.int_range(pl.len()),
        **{name: pl.col(name) for name in ENGINE_NAMES},
        start_ns=start - work.start_ns,
        window_ns=end - start,
        overlap_ns=pl.when(pl.col("alone_ns") > start).then(pl.col("alone_ns") - start),
        busy_ns=pl.col("busy_ns"),
        num_launches=pl.col("num_launches").fill_null(0),
        num_graphs=pl.col("num_graphs").fill_null(0),
        gap_ns=(start.backward_fill().shift(-1) - end).clip(lower_bound=0),
        unrecorded_ns=_unrecorded(rows, unrecorded),
    ).cast(frame_schema(EngineStepRow))  # type: ignore[arg-type]


def _launches(work: Work) -> list[pl.Expr]:
    """How many calls, and how many launches of a graph, a group of device events was launched by."""
    calls = work.trace.events.filter(is_launch()).select("name", "ts_ns")
    names = calls.get_column("name").unique().cast(pl.String)
    graphs = names.filter(names.str.contains("GraphLaunch")).cast(pl.Categorical())
    at = calls.filter(pl.col("name").is_in(graphs.implode())).get_column("ts_ns")
    call = pl.struct(*_LAUNCH)
    is_graph = pl.col("launch_ts_ns").is_in(at.implode())
    return [call.n_unique().alias("num_launches"), call.filter(is_graph).n_unique().alias("num_graphs")]


def _unrecorded(rows: pl.DataFrame, cover: Intervals | None) -> pl.Series:
    """Of each window, without what overlaps earlier ones, the part that `cover` covers."""
    if cover is None:
        return pl.Series([None], dtype=pl.Int64).new_from_index(0, rows.height)
    start, end = (rows.get_column(name).fill_null(0).to_numpy() for name in ("alone_ns", "end_ns"))
    return pl.Series(covered(cover, start, end)).set(rows.get_column("start_ns").is_null(), None)


def _rate(count: pl.Expr, time_ns: pl.Expr) -> pl.Expr:
    """Counts per second of the rows that state one; null where their sum, or their time, is none."""
    stated = count.is_not_null() & (time_ns > 0)
    total = count.filter(stated).sum()
    return pl.when(total > 0).then((total / time_ns.filter(stated).sum() * S).round())


def _outside(events: pl.DataFrame) -> pl.DataFrame:
    """Device work that no iteration launched, as a row of the summary; no row where there is none."""
    busy = of_events(events.filter(pl.col("iteration").is_null())).total_ns
    row: dict[str, Any] = {"kind": OUTSIDE, "num_steps": 0, "device_ns": busy, "busy_ns": busy}
    schema = frame_schema(EngineKindRow)
    return pl.DataFrame([row] if busy else [], schema={name: schema[name] for name in row})
