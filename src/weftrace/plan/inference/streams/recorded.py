"""Which waits did the profiler record, between streams and of the host?

Kineto writes a `cuda_sync` event for a wait where it is asked to (`enable_cuda_sync_events`): a stream that waits for
an event, the host that waits for an event, for a stream or for the device. The call that recorded the event is told by
its correlation; what was launched to that call's stream before it is what is waited for. HIP writes no such events: of
its calls only those that wait for the whole device tell for what.

Whether a wait held anything up is another question: most find that what they wait for has long ended.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.notebook import InNotebook
from weftrace.trace.model import is_launch
from weftrace.units import US

#: A record that has the waiter start more than this before the awaited op ended is not believed: stamps of host and
#: device agree within some µs, and Kineto may name a later record of an event that is used again.
TOLERANCE_NS = 10 * US

#: Waits of streams: positions in the ops' frame, and the row of the wait's own event in the trace's.
STREAM_WAIT_SCHEMA: dict[str, pl.DataType] = {"op": pl.Int64(), "on": pl.Int64(), "row": pl.UInt32()}

#: Waits of the host: the row of the call that blocks in the trace's events, the op that it waits for, and why it does.
HOST_WAIT_SCHEMA: dict[str, pl.DataType] = {"call": pl.UInt32(), "on": pl.Int64(), "kind": pl.String()}

_WAIT, _EVENT, _STREAM, _CONTEXT = "Stream Wait Event", "Event Sync", "Stream Sync", "Context Sync"
_OF_DEVICE = "^(cuda|hip)DeviceSynchronize|^cuCtxSynchronize"
_OF_OTHERS = "^(cuda|hip)(Stream|Event)Synchronize|^cu(Stream|Event)Synchronize"
_QUERY = "Query"  # a query that finds its event done is recorded as a wait for it, and waits for nothing

_Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recorded(InNotebook):
    """Who waited for whom, as the profiler recorded it.

    streams: frame of `STREAM_WAIT_SCHEMA`: the op, the first that was launched to its stream after the wait, started
        after `on` had ended, the last that was launched to the awaited stream before the event was recorded.
    calls: frame of `HOST_WAIT_SCHEMA`: the call returned after `on` had ended; one for the device has a row a stream.
    unnamed: rows of calls that block for a stream or an event and of which no record says which.
    num_unknown: waits for events that were recorded before the profile began.
    num_contradicted: waits that were dropped, since the stamps say that the awaited op ended later.
    tells_streams: whether waits of streams are recorded at all, be it none that could be used.
    """

    streams: pl.DataFrame
    calls: pl.DataFrame
    unnamed: _Ints
    num_unknown: int
    num_contradicted: int
    tells_streams: bool


def recorded_waits(events: pl.DataFrame, ops: pl.DataFrame, *, device: int | None = None) -> Recorded:
    """The waits that a trace's events record, between the ops of one device.

    events: a trace's, of `EVENT_SCHEMA`. ops: a row an op, in order of start, with stream, launch_ts_ns (null where no
    launch is known), start_ns and end_ns, as `Work.events` has them. device: theirs; None takes the records of all.
    """
    calls, syncs = _calls_and_records(events, device)
    launched = _Launched(ops)
    known = syncs.filter(pl.col("recorded_ns").is_not_null() | ~pl.col("kind").is_in((_WAIT, _EVENT)))
    streams, num_odd = _stream_waits(known.filter(kind=_WAIT), launched)
    blocking = known.filter(pl.col("kind") != _WAIT, pl.col("call").is_not_null())
    by_device = calls.filter(pl.col("name").str.contains(_OF_DEVICE))
    if device is not None and syncs.filter(kind=_CONTEXT).height:
        by_device = by_device.clear()  # the records tell, and tell of which device
    of_host, num_odd_calls = _host_waits(blocking, by_device, launched)
    summary = pl.concat((of_host.get_column("call"), syncs.get_column("call").drop_nulls()))
    others = calls.filter(pl.col("name").str.contains(_OF_OTHERS), ~pl.col("call").is_in(summary.implode()))
    return Recorded(
        streams=streams,
        calls=of_host,
        unnamed=others.get_column("call").to_numpy().astype(np.int64),
        num_unknown=len(syncs) - len(known),
        num_contradicted=num_odd + num_odd_calls,
        tells_streams=bool((syncs.get_column("kind") == _WAIT).any()),
    )


def stream_waits(ops: pl.DataFrame, recorded: Recorded) -> pl.DataFrame:
    """Recorded waits between streams as waits of a plan: op, on, why, source.

    ops: all of the plan, with `op`, and `event`, the position among the ops that `recorded` was read for.
    """
    row_of = ops.select("op", "event").drop_nulls("event").sort("event").get_column("op").to_numpy()
    op, on = (row_of[recorded.streams.get_column(name).to_numpy()] for name in ("op", "on"))
    return pl.DataFrame({"op": op, "on": on}).with_columns(why=pl.lit("data"), source=pl.lit("recorded"))


def _calls_and_records(events: pl.DataFrame, device: int | None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Calls that wait, and records of waits, each with the call that it is of and when its event was recorded.

    calls: call (a row of events), name, ts_ns, end_ns. records: row, kind, stream, wait_stream, recorded_ns, call, and
    called_ns and returned_ns of the call.
    """
    columns = ("cat", "name", "ts_ns", "dur_ns", "device", "stream", "correlation", "wait_stream", "wait_correlation")
    rows = events.select(columns).with_row_index("row")
    syncs = rows.filter(pl.col("cat") == "cuda_sync").with_columns(pl.col("name").cast(pl.String))
    if device is not None:
        syncs = syncs.filter(pl.col("device").is_null() | (pl.col("device") == device))
    wanted = pl.concat((syncs.get_column("correlation"), syncs.get_column("wait_correlation"))).implode()
    names = rows.get_column("name").unique().cast(pl.String)
    waiting = names.filter(names.str.contains(f"{_OF_DEVICE}|{_OF_OTHERS}")).cast(pl.Categorical()).implode()
    calls = rows.filter(is_launch(), pl.col("correlation").is_in(wanted) | pl.col("name").is_in(waiting)).select(
        pl.col("row").alias("call"),
        pl.col("name").cast(pl.String),
        "correlation",
        pl.col("ts_ns").alias("called_ns"),
        (pl.col("ts_ns") + pl.col("dur_ns")).alias("returned_ns"),
    )
    by_number = calls.filter(pl.col("correlation") > 0).unique("correlation", keep="first", maintain_order=True)
    records = by_number.select(
        pl.col("correlation").alias("wait_correlation"), pl.col("called_ns").alias("recorded_ns")
    )
    own = by_number.rename({"name": "call_name"})
    syncs = (
        syncs.join(records, on="wait_correlation", how="left", maintain_order="left")
        .join(own, on="correlation", how="left", maintain_order="left")
        .filter(~pl.col("call_name").fill_null("").str.contains(_QUERY))
        .with_columns(pl.coalesce("called_ns", "ts_ns").alias("called_ns"))
        .rename({"name": "kind"})
    )
    return calls, syncs


class _Launched:
    """Ops by stream and launch: which is the last launched to a stream before a moment, which the first after it."""

    def __init__(self, ops: pl.DataFrame) -> None:
        known = ops.with_row_index("op").filter(pl.col("launch_ts_ns").is_not_null())
        known = known.with_columns(pl.col("stream").fill_null(-1))  # what has no stream is on one of its own
        known = known.sort("stream", "launch_ts_ns", "op")
        self.start_ns, self.end_ns = (ops.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
        self.streams: _Ints = known.get_column("stream").unique().sort().to_numpy()
        self._op = known.get_column("op").to_numpy().astype(np.int64)
        launch_ns = known.get_column("launch_ts_ns").to_numpy()
        self._origin_ns = int(launch_ns.min()) if len(launch_ns) else 0
        self._span_ns = int(launch_ns.max()) - self._origin_ns + 3 if len(launch_ns) else 3
        self._keys = self._key(known.get_column("stream").to_numpy(), launch_ns)

    def _key(self, stream: _Ints, time_ns: _Ints) -> _Ints:
        """Streams one after another on one axis, each with its launches in order of time."""
        at: _Ints = np.clip(time_ns - self._origin_ns, -1, self._span_ns - 2) + 1
        return np.searchsorted(self.streams, stream) * self._span_ns + at

    def last_before(self, stream: _Ints, time_ns: _Ints) -> _Ints:
        """The op launched last to each stream before a moment, that which launches at it included; -1 for none."""
        at = np.searchsorted(self._keys, self._key(stream, time_ns), "right") - 1
        return self._at(at, stream)

    def first_after(self, stream: _Ints, time_ns: _Ints) -> _Ints:
        """The op launched first to each stream at or after a moment; -1 for none."""
        return self._at(np.searchsorted(self._keys, self._key(stream, time_ns), "left"), stream)

    def _at(self, at: _Ints, stream: _Ints) -> _Ints:
        inside = (at >= 0) & (at < len(self._op))
        inside &= np.isin(stream, self.streams)
        at = np.where(inside, at, 0)
        if not len(self._op):
            return np.full(len(at), -1)
        of_stream = self._keys[at] // self._span_ns == np.searchsorted(self.streams, stream)
        return np.where(inside & of_stream, self._op[at], -1)


def _stream_waits(waits: pl.DataFrame, launched: _Launched) -> tuple[pl.DataFrame, int]:
    """`Recorded.streams`, and how many waits the stamps contradict."""
    waits = waits.filter(pl.col("stream") != pl.col("wait_stream"))
    stream, on_stream, called_ns, recorded_ns = (
        waits.get_column(name).to_numpy() for name in ("stream", "wait_stream", "called_ns", "recorded_ns")
    )
    op, on = launched.first_after(stream, called_ns), launched.last_before(on_stream, recorded_ns)
    found = (op >= 0) & (on >= 0)
    believed = found & (on < op) & (launched.end_ns[on] - launched.start_ns[op] <= TOLERANCE_NS) if len(op) else found
    frame = pl.DataFrame({"op": op, "on": on, "row": waits.get_column("row"), "wait_stream": on_stream})
    frame = (
        frame.filter(believed).sort("op", "on", "row").unique(("op", "wait_stream"), keep="last", maintain_order=True)
    )
    return frame.select(pl.col(name).cast(dtype) for name, dtype in STREAM_WAIT_SCHEMA.items()), int(
        (found & ~believed).sum()
    )


def _host_waits(records: pl.DataFrame, by_device: pl.DataFrame, launched: _Launched) -> tuple[pl.DataFrame, int]:
    """`Recorded.calls`, and how many waits the stamps contradict. by_device: calls that wait for the whole device."""
    stream = pl.when(kind=_EVENT).then("wait_stream").otherwise("stream")
    until = pl.when(kind=_EVENT).then("recorded_ns").otherwise("called_ns")
    of_one = records.filter(pl.col("kind").is_in((_EVENT, _STREAM))).select(
        "call", "kind", "returned_ns", stream.alias("stream"), until.alias("until_ns")
    )
    of_all = pl.concat(
        part.select("call", "returned_ns", kind=pl.lit(_CONTEXT), until_ns="called_ns")
        for part in (records.filter(kind=_CONTEXT), by_device)
    ).unique("call", maintain_order=True)
    of_all = of_all.join(pl.DataFrame({"stream": pl.Series(launched.streams, dtype=pl.Int64)}), how="cross")
    waits = pl.concat((of_one, of_all.select(of_one.columns)))
    until_ns, of_stream = (waits.get_column(name).to_numpy() for name in ("until_ns", "stream"))
    on = launched.last_before(of_stream, until_ns)
    found = on >= 0
    returned_ns = waits.get_column("returned_ns").to_numpy()
    believed = found & (launched.end_ns[on] - returned_ns <= TOLERANCE_NS) if len(on) else found
    frame = waits.with_columns(on=pl.Series(on)).filter(believed).sort("call", "on")
    return frame.select(pl.col(name).cast(dtype) for name, dtype in HOST_WAIT_SCHEMA.items()), int(
        (found & ~believed).sum()
    )
