"""A `Trace` as Chrome trace JSON in Kineto's manner: read(write(trace)) == trace.

Text is made by Polars, column by column, and comes out in chunks: memory does not grow with the length of the text.

A frame holds the product of a launch grid's dimensions, and their text where they are more than [n, 1, 1]. What the
reader settles is taken as settled: device events have a device and a stream, host calls have none, categories
have today's names.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl

from weftrace.errors import TraceError
from weftrace.files.output import write_output
from weftrace.trace.chrome.argument_texts import is_list
from weftrace.trace.chrome.facts import CAPABILITY_KEYS, CONFIGURATION_KEY, DEVICE_LIMITS
from weftrace.trace.chrome.memory_events import MEMORY, MEMORY_KEY
from weftrace.trace.model import EVENT_SCHEMA, Device, Trace, Track, is_launch, on_device
from weftrace.units import US, S

_ROWS = 1 << 15  # events a chunk of text
_SMALL_NS = 2**43 * US  # below it, float64 microseconds (any viewer's numbers) still tell nanoseconds apart
_MAX_BASE_NS = 1 << 62

#: Event columns that are arguments, and the keys under which Kineto writes them.
_ARGUMENT_KEY = {
    "external_id": "External id",
    "device": "device",
    "stream": "stream",
    "correlation": "correlation",
    "graph_id": "graph id",
    "graph_node_id": "graph node id",
    "num_blocks": "grid",
    "num_threads": "block",
    "registers": "registers per thread",
    "shared_bytes": "shared memory",
    "occupancy": "est. achieved occupancy %",
    "moved_bytes": "bytes",
    "sequence": "Sequence number",
    "forward_thread": "Fwd thread id",
    "input_shapes": "Input Dims",
    "input_types": "Input type",
    "input_strides": "Input Strides",
    "input_values": "Concrete Inputs",
    "stated_flops": "kernel_flop",
    "call_stack": "Call stack",
    "collective": "Collective name",
    "in_elems": "In msg nelems",
    "out_elems": "Out msg nelems",
    "dtype": "dtype",
    "group": "Process Group Name",
    "group_size": "Group size",
    "group_ranks": "Process Group Ranks",
    "comm_seq": "Seq",
    "src_rank": "Src Rank",
    "dst_rank": "Dst Rank",
    "wait_stream": "wait_on_stream",
    "wait_correlation": "wait_on_cuda_event_record_corr_id",
}
#: Event columns that only plans fill, and their keys in the argument `weftrace`, which no profiler writes.
_PLANNED_KEY = {"op_kind": "kind", "layer": "layer", "micro_batch": "micro_batch"}
_DIMENSIONS = {"num_blocks": "grid", "num_threads": "block"}  # products, and the texts of what they are products of
_LISTS = ("grid", "block", "input_shapes", "input_types", "input_strides", "input_values")  # texts that stand for lists
_IDENTIFIERS = ("pid", "tid")  # texts in the frame; numbers in the file where they spell one
_ELSEWHERE = ("name", "cat", "pid", "tid", "ts_ns", "dur_ns", "flow_id", "grid", "block")
_WRITTEN = {*_ARGUMENT_KEY, *_PLANNED_KEY, *_ELSEWHERE}
assert set(EVENT_SCHEMA) == _WRITTEN, set(EVENT_SCHEMA) ^ _WRITTEN

# Facts that the writer states itself; others of `Trace.info` are passed on.
_OWN_FACTS = (
    "schemaVersion", "deviceProperties", "distributedInfo", "displayTimeUnit", "baseTimeNanoseconds",
    "weftrace_simulated", "traceEvents",
)  # fmt: skip
_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,14}", re.ASCII)  # an integer that a float64, as JavaScript reads it, can hold


def write_chrome(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace as Chrome JSON, compressed where the name ends in .gz or .zst, whole or not at all.

    Raises OutputError when the file cannot be written.
    """
    write_output(path, chrome_text(trace))


def chrome_text(trace: Trace) -> Iterator[bytes]:
    """The text of the file, in chunks of some megabytes.

    The object form: facts first, then `traceEvents` with the tracks' names (`ph` M), the recording window, the events
    (X) in the frame's order, and an arrow (`ac2g`: s, f) from each launch to the device events that it is joined to.
    Times are decimal microseconds, exact to the nanosecond, relative to `baseTimeNanoseconds`.
    Raises TraceError for a plain trace: what its events were taken for has no place in such a file.
    """
    if trace.plain is not None:
        raise TraceError(f"{trace.path}: is a plain Chrome trace: keep its file, or save it as .parquet.")
    base_ns = _base_ns(trace)
    yield from _joined(_head(trace, base_ns), _event_texts(trace, base_ns))
    yield b"\n]}\n"


def exact_us(time_ns: int) -> str:
    """Nanoseconds as decimal microseconds: 1234567 -> "1234.567", 5000 -> "5"."""
    whole, rest = divmod(abs(time_ns), US)
    sign = "-" if time_ns < 0 else ""
    return f"{sign}{whole}.{rest:03}" if rest else f"{sign}{whole}"


# --- facts --------------------------------------------------------------------------------------------------------


def _base_ns(trace: Trace) -> int:
    """What is taken off every time: the base that the trace's file had, else a whole second near its start.

    0 when times are small as they are. Keeps the written numbers small enough for viewers, which hold them in float64.
    """
    extent = trace.events.select(first=pl.col("ts_ns").min(), last=pl.col("ts_ns").max()).row(0)
    times = [time for time in (*extent, *(trace.window_ns or ())) if time is not None]
    if not times:
        return 0
    first, last = min(times), max(times)
    stated = trace.info.get("baseTimeNanoseconds", "0")
    for base in (int(stated) if re.fullmatch(r"[0-9]{1,19}", stated, re.ASCII) else 0, 0):
        if base < _MAX_BASE_NS and first - base > -_SMALL_NS and last - base < _SMALL_NS:
            return base
    return first // S * S if 0 < first < _MAX_BASE_NS else 0


def _head(trace: Trace, base_ns: int) -> bytes:
    facts: dict[str, Any] = {"schemaVersion": 1}
    if trace.devices:
        facts["deviceProperties"] = [_device(device) for device in trace.devices]
    distributed = {"backend": trace.backend, "rank": trace.rank, "world_size": trace.world_size}
    distributed = {key: value for key, value in distributed.items() if value is not None}
    if distributed:
        facts["distributedInfo"] = distributed
    facts["displayTimeUnit"] = "ns" if trace.info.get("displayTimeUnit") == "ns" else "ms"  # how viewers show times
    if base_ns:
        facts["baseTimeNanoseconds"] = base_ns
    if trace.simulated:
        facts["weftrace_simulated"] = True
    configured = trace.configuration
    for key, value in trace.info.items():
        if key not in _OWN_FACTS and key not in configured:
            facts[key] = _number_or_text(value)
    if configured:
        facts[CONFIGURATION_KEY] = configured
    return _encoded(facts)[:-1] + b',"traceEvents":['


def _encoded(value: object) -> bytes:
    """JSON of facts. Lone surrogates, which a file may escape and UTF-8 has no place for, are escaped again."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value).encode()


def _device(device: Device) -> dict[str, int | str]:
    stated: dict[str, int | str | None] = {
        "id": device.id,
        "name": device.name,
        "totalGlobalMem": device.memory_bytes,
        "numSms": device.num_sms,
        **dict(zip(CAPABILITY_KEYS, device.capability or (), strict=False)),
        **{keys[0]: getattr(device, field) for field, keys in DEVICE_LIMITS.items()},
    }
    return {key: value for key, value in stated.items() if value is not None and value != ""}


def _number_or_text(text: str) -> int | str:
    return int(text) if _NUMBER.fullmatch(text) else text


# --- events -------------------------------------------------------------------------------------------------------


def _event_texts(trace: Trace, base_ns: int) -> Iterator[bytes]:
    """Each event list, cut into texts of events that commas part."""
    yield _listed(event for track in trace.tracks for event in _track_events(track))
    if trace.window_ns is not None:
        yield _window(trace.window_ns, base_ns)
    yield from _texts_of(trace.events, _complete_line(trace.events, base_ns))
    if trace.memory is not None:
        yield from _texts_of(trace.memory, _memory_line(trace.memory, base_ns))
    arrows = _arrows(trace.events)
    yield from _texts_of(arrows, _arrow_line(arrows, base_ns))


def _joined(head: bytes, texts: Iterable[bytes]) -> Iterator[bytes]:
    before = head + b"\n"
    for text in texts:
        if text:
            yield before + text
            before = b",\n"
    if before != b",\n":
        yield head


def _listed(events: Iterable[dict[str, Any]]) -> bytes:
    return b",\n".join(map(_encoded, events))


def _texts_of(rows: pl.DataFrame, line: pl.Expr) -> Iterator[bytes]:
    for at in range(0, rows.height, _ROWS):
        text: str = rows.slice(at, _ROWS).select(line.str.join(",\n")).item()
        yield text.encode()


def _track_events(track: Track) -> Iterator[dict[str, Any]]:
    """The metadata events that name a process or a thread, give it labels and its place in the order."""
    kind = "process" if track.tid is None else "thread"
    facts: list[tuple[str, dict[str, Any]]] = [("name", {"name": track.name})]
    if track.labels:
        facts.append(("labels", {"labels": track.labels}))
    if track.sort_index is not None:
        facts.append(("sort_index", {"sort_index": track.sort_index}))
    for field, args in facts:
        yield {
            "name": f"{kind}_{field}",
            "ph": "M",
            "ts": 0,
            "pid": _number_or_text(track.pid),
            "tid": 0 if track.tid is None else _number_or_text(track.tid),
            "args": args,
        }


def _window(window_ns: tuple[int, int], base_ns: int) -> bytes:
    """The recording's extent, as Kineto states it: a span of its own, and a mark at the end."""
    start, end = exact_us(window_ns[0] - base_ns), exact_us(window_ns[1] - base_ns)
    length = exact_us(window_ns[1] - window_ns[0])
    return (
        f'{{"ph":"X","cat":"Trace","name":"PyTorch Profiler (0)","pid":"Spans","tid":"PyTorch Profiler",'
        f'"ts":{start},"dur":{length},"args":{{}}}},\n'
        f'{{"ph":"i","s":"g","name":"Record Window End","pid":"","tid":"","ts":{end}}}'
    ).encode()


def _complete_line(events: pl.DataFrame, base_ns: int) -> pl.Expr:
    """Each event as one JSON object. Columns that are null throughout cost nothing."""
    filled = {column for column in EVENT_SCHEMA if events.get_column(column).null_count() < events.height}
    arguments, planned = (
        [
            _optional(keys[column], _json(events, column))
            for column in keys
            if {column, _DIMENSIONS.get(column)} & filled
        ]
        for keys in (_ARGUMENT_KEY, _PLANNED_KEY)
    )
    if planned:
        arguments.append(_object("weftrace", planned))
    parts = [
        pl.lit('{"ph":"X"'),
        *([_optional("cat", _json(events, "cat"))] if "cat" in filled else []),
        pl.lit(',"name":'),
        _json(events, "name").fill_null('""'),
        *_place(events),
        pl.lit(',"ts":'),
        _us(pl.col("ts_ns") - base_ns),
        pl.lit(',"dur":'),
        _us(pl.col("dur_ns")),
    ]
    if arguments:
        parts.append(_object("args", arguments))
    return pl.concat_str(*parts, pl.lit("}"))


def _place(events: pl.DataFrame) -> Sequence[pl.Expr]:
    pid, tid = (_json(events, column).fill_null('""') for column in _IDENTIFIERS)
    return pl.lit(',"pid":'), pid, pl.lit(',"tid":'), tid


def _optional(key: str, value: pl.Expr) -> pl.Expr:
    """`,"key":value`, or nothing where the value is null."""
    return pl.concat_str(pl.lit(f',"{key}":'), value).fill_null("")


def _object(key: str, members: Sequence[pl.Expr]) -> pl.Expr:
    """`,"key":{members}`, or nothing where there are none. members: each with a comma before it, or empty."""
    inside = pl.concat_str(members).str.strip_prefix(",")
    return pl.when(inside != "").then(pl.concat_str(pl.lit(f',"{key}":{{'), inside, pl.lit("}"))).otherwise(pl.lit(""))


def _json(events: pl.DataFrame, column: str) -> pl.Expr:
    """A column's values as JSON. Texts are encoded once each, however often they occur."""
    if column in _DIMENSIONS:
        product = pl.concat_str(pl.lit("["), pl.col(column).cast(pl.String), pl.lit(",1,1]"))
        return pl.coalesce(_json(events, _DIMENSIONS[column]), product)
    if events.schema[column].is_integer():
        return pl.col(column).cast(pl.String)
    texts = events.get_column(column).unique().drop_nulls()
    values = texts.cast(pl.String).to_list()
    if column in _IDENTIFIERS:
        values = list(map(_number_or_text, values))
    as_is = is_list if column in _LISTS else lambda _: False
    encoded = pl.Series([v if as_is(v) else msgspec.json.encode(v).decode() for v in values], dtype=pl.String)
    return pl.col(column).replace_strict(texts, encoded, default=None, return_dtype=pl.String)


def _us(time_ns: pl.Expr) -> pl.Expr:
    """`exact_us` for a column."""
    size = time_ns.abs()
    rest = size % US
    fraction = pl.concat_str(pl.lit("."), rest.cast(pl.String).str.zfill(3))
    return pl.concat_str(
        pl.when(time_ns < 0).then(pl.lit("-")).otherwise(pl.lit("")),
        (size // US).cast(pl.String),
        pl.when(rest > 0).then(fraction).otherwise(pl.lit("")),
    )


def _memory_line(memory: pl.DataFrame, base_ns: int) -> pl.Expr:
    """What was allocated or freed, as Kineto writes it."""
    return pl.concat_str(
        pl.lit(f'{{"ph":"i","cat":"cpu_instant_event","s":"t","name":"{MEMORY}"'),
        *_place(memory),
        pl.lit(',"ts":'),
        _us(pl.col("ts_ns") - base_ns),
        _object("args", [_optional(key, _json(memory, column)) for column, key in MEMORY_KEY.items()]),
        pl.lit("}"),
    )


# --- arrows -------------------------------------------------------------------------------------------------------


def _arrows(events: pl.DataFrame) -> pl.DataFrame:
    """The ends of every arrow from a launch to its device events: id, ph (s or f), ts_ns, pid, tid.

    Joined by correlation, which is the id, as Kineto has it: readers join by that. A launch of many events, a graph's,
    starts one arrow that ends at each. Joined by flow_id, which is then the id, where correlation (0 or none) joins
    nothing; a correlation that is one of those gets an id of its own.
    """
    place = ("ts_ns", "pid", "tid")
    rows = events.select(*place, "cat", "correlation", "flow_id").with_row_index("row")
    launches = rows.filter(is_launch())
    linked = on_device() & (pl.col("correlation") > 0).fill_null(False)
    orphans = rows.filter(on_device() & ~linked)

    first_call = launches.filter(pl.col("correlation") > 0).unique("correlation", keep="first")
    pairs = rows.filter(linked).join(first_call, on="correlation", suffix="_launch").sort("row")
    # An arrow that ends where an event without a usable correlation lies would be taken for that event's.
    pairs = pairs.join(orphans, on=place, how="anti", maintain_order="left")
    pairs = pairs.join(_arrow_ids(pairs, rows.get_column("flow_id")), on="correlation", maintain_order="left")
    correlated = [
        pairs.unique("id", keep="first", maintain_order=True).select(
            "id", pl.lit("s").alias("ph"), *(pl.col(f"{column}_launch").alias(column) for column in place)
        ),
        pairs.select("id", pl.lit("f").alias("ph"), *place),
    ]

    ends = orphans.filter(pl.col("flow_id").is_not_null())
    starts = launches.join(ends, on="flow_id", how="semi", maintain_order="left")
    # An event whose launch was not recorded starts its own arrow: of no length, but an end without a start is none.
    alone = ends.join(starts, on="flow_id", how="anti", maintain_order="left")
    flowing = [
        part.select(pl.col("flow_id").alias("id"), pl.lit(ph).alias("ph"), *place).unique(maintain_order=True)
        for part, ph in ((pl.concat([starts, alone]), "s"), (ends, "f"))
    ]
    return pl.concat([*correlated, *flowing]).sort("id", maintain_order=True)


def _arrow_ids(pairs: pl.DataFrame, flow_ids: pl.Series) -> pl.DataFrame:
    """Columns correlation, id: equal, but for correlations that are flow ids, which get the smallest free numbers."""
    correlations = pairs.get_column("correlation").unique()
    taken = flow_ids.drop_nulls().unique()
    clashing = correlations.filter(correlations.is_in(taken.implode())).sort()
    others = correlations.filter(~correlations.is_in(taken.implode()))
    used = pl.concat([correlations, taken]).unique().to_numpy()
    free = np.setdiff1d(np.arange(1, len(clashing) + len(used) + 1), used, assume_unique=True)[: len(clashing)]
    ids = pl.concat([others, pl.Series(free, dtype=pl.Int64)])
    return pl.DataFrame({"correlation": pl.concat([others, clashing]), "id": ids.rename("id")})


def _arrow_line(arrows: pl.DataFrame, base_ns: int) -> pl.Expr:
    return pl.concat_str(
        pl.lit('{"ph":"'),
        pl.col("ph"),
        pl.lit('","cat":"ac2g","name":"ac2g","id":'),
        pl.col("id").cast(pl.String),
        *_place(arrows),
        pl.lit(',"ts":'),
        _us(pl.col("ts_ns") - base_ns),
        pl.when(pl.col("ph") == "f").then(pl.lit(',"bp":"e"}')).otherwise(pl.lit("}")),
    )
