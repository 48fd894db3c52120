"""Timeline: which events of a trace the page draws, packed so that a million of them stay small.

The page never sees the events frame. It gets columns of little-endian numbers (base64), sorted so that every drawn row
is one contiguous, time-ordered slice: drawing any window is then a binary search a row, and nothing is sorted in the
browser.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import polars as pl

from weftrace.render.packed import packed
from weftrace.report.timeline_facts import timeline_facts
from weftrace.report.timeline_types import TimelineGroup, TimelinePayload, TimelineTrack
from weftrace.trace.model import Trace, Track, is_annotation, is_launch, on_device

#: Version of the payload's shape; the page checks it.
FORMAT = "weftrace.timeline/1"

#: What an event is coloured as; the `class` column holds positions in this list.
#: "outside" is device work that the report's numbers leave out: another device, or another step.
CLASSES = (
    "compute",
    "communication",
    "barrier",
    "memory",
    "fused",
    "outside",
    "annotation",
    "operator",
    "launch",
    "other",
)
_CODE = {name: code for code, name in enumerate(CLASSES)}

#: Names longer than this are cut: a CUTLASS kernel can spell out 4,000 characters of template arguments.
MAX_NAME_CHARS = 512
#: All names together; beyond it every name is cut shorter, so that a hostile file cannot swell the page.
MAX_NAMES_CHARS = 4_000_000
#: Times beyond this distance from the first device event cannot be held exactly by a browser's numbers.
MAX_DISTANCE_NS = 1 << 52

#: Streams and threads that are drawn, those first on which the device worked, then those with most events: a page
#: with many more is too long to be looked through.
MAX_TRACKS = 300

_COUNTED, _ANNOTATION, _HOST = 0, 1, 2  # what is kept first, when not everything can be kept
_KEPT_NAMES = {_COUNTED: "device", _ANNOTATION: "annotation", _HOST: "host"}


def timeline_payload(trace: Trace, work_events: pl.DataFrame | None, *, max_events: int = 200_000) -> TimelinePayload:
    """The events of one trace as the page's timeline draws them.

    trace: all its device events, annotations and host ranges are candidates; Python stack frames are not.
    work_events: the events that the report's numbers are made of (`Work.events`), with columns `row` (in
        `trace.events`), `kind`, `role`, `start_ns`, `end_ns` (absolute; a clipped end is drawn clipped). They are
        device events, or host operators where a file has none. None: all device events, classed by their category.
    max_events: most events to keep. Device events stay first, then annotations, then host ranges, the longest first.
        Of these, the ones in the `MAX_TRACKS` busiest tracks.

    Returns a JSON-able mapping:
        start_ns: absolute time of the first counted event (of the first event where there is none); the others count
            from it.
        first_ns, end_ns: earliest start and latest end, relative; first_ns is what the `start` column counts from.
        num_events, num_device: events in the columns; the first num_device of them are device events.
        columns: name -> {"type": "u1" | "u2" | "u4" | "f8", "data": base64}. start, dur (ns), name (index in `names`),
            class (index in `classes`), facts (1 + index in facts.rows, or 0) have num_events entries; launch has
            num_device: 1 + index of the launch call, or 0, and so has correlation: 1 + it - first_correlation, or 0.
            Events of the classes before "outside" are counted in breakdowns; no others are.
        facts: what else is known of events, each different row once: `timeline_facts`.
        names, classes: the tables those indices point at.
        groups: devices, then host processes; tracks: in drawing order, each with its group and rows [first, count].
        left_out: events not in the columns, by kind; shortened_names: names that were cut.
    """
    events = _classified(trace, work_events)
    start_ns = _origin(events)
    is_near = events.select((pl.col("start_ns") - start_ns).abs() < MAX_DISTANCE_NS).to_series()
    if far := int((~is_near).sum()):
        events = events.filter(is_near)
    kept, left_out = _most_telling(events, max_events)
    del events  # of a large trace most of what was needed so far
    kept, beyond = _busiest(_with_track(kept))
    for kind, number in beyond.items():
        left_out[kind] = left_out.get(kind, 0) + number
    if far:
        left_out["far"] = far
    python_frames = int((trace.events.get_column("cat") == "python_function").sum())
    if python_frames:
        left_out["python_function"] = python_frames

    tracks, groups, kept = _placed(kept, trace)
    names, name_codes, shortened = _names(kept.get_column("name"))
    starts = kept.get_column("start_ns").to_numpy() - start_ns
    durs = kept.get_column("end_ns").to_numpy() - kept.get_column("start_ns").to_numpy()
    first_ns = int(starts.min()) if starts.size else 0
    num_device = int(kept.get_column("on_device").sum())
    launches = _launch_of(kept, num_device)
    first_correlation, correlations = _correlations(kept, num_device)
    facts, fact_codes = timeline_facts(kept, trace, work_events, launched=launches)
    return {
        "format": FORMAT,
        "rank": trace.rank,
        "start_ns": start_ns,
        "first_ns": first_ns,
        "end_ns": int((starts + durs).max()) if starts.size else 0,
        "num_events": kept.height,
        "num_device": num_device,
        "columns": {
            "start": packed(starts - first_ns),
            "dur": packed(durs),
            "name": packed(name_codes),
            "class": packed(kept.get_column("class").to_numpy()),
            "launch": packed(launches),
            "correlation": packed(correlations),
            "facts": packed(fact_codes),
        },
        "first_correlation": first_correlation,
        "facts": facts,
        "names": names,
        "classes": list(CLASSES),
        "groups": groups,
        "tracks": tracks,
        "left_out": left_out,
        "shortened_names": shortened,
    }


def nesting_depth(start: npt.NDArray[np.int64], end: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How many earlier intervals are still open when each one starts: the row it is drawn in.

    start, end: one thread's intervals [n], sorted by start, then by end descending. An empty interval counts as 1 ns.
    Of the i intervals before interval i, those that ended by its start are not open: depth = i - #{end <= start_i}.
    """
    ends = np.sort(np.maximum(end, start + 1))
    return np.arange(start.size, dtype=np.int64) - np.searchsorted(ends, start, side="right")


def _classified(trace: Trace, work_events: pl.DataFrame | None) -> pl.DataFrame:
    """Every drawable event: row, name, order (what is kept first), class, its track's keys, times and correlation."""
    cat = pl.col("cat").cast(pl.String)
    noted = cat.is_in(["gpu_user_annotation", "cuda_sync"])  # drawn beside a stream, but not its work
    order = pl.when(on_device()).then(_COUNTED).when(is_annotation() | noted).then(_ANNOTATION).otherwise(_HOST)
    host_class = (
        pl.when(is_annotation() | (cat == "gpu_user_annotation"))
        .then(_CODE["annotation"])
        .when(is_launch())
        .then(_CODE["launch"])
        .when(cat == "cpu_op")
        .then(_CODE["operator"])
        .otherwise(_CODE["other"])
    )
    by_category = pl.when(cat == "kernel").then(_CODE["compute"]).otherwise(_CODE["memory"])
    events = (
        trace.events.select("name", "cat", "pid", "tid", "device", "stream", "ts_ns", "dur_ns", "correlation")
        .with_row_index("row")
        .filter(cat.fill_null("") != "python_function", pl.col("ts_ns").is_not_null(), pl.col("dur_ns") >= 0)
        .select(
            pl.col("row").cast(pl.Int64),
            "name",
            on_device().alias("on_device"),
            order.cast(pl.UInt8).alias("order"),
            pl.when(on_device()).then(by_category).otherwise(host_class).cast(pl.UInt8).alias("class"),
            "pid",
            "tid",
            pl.when(on_device() | noted).then(pl.col("device").fill_null(0)).alias("device"),
            pl.when(on_device() | noted).then(pl.col("stream").fill_null(-1)).alias("stream"),
            pl.col("ts_ns").alias("start_ns"),
            (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"),
            "correlation",
        )
    )
    if work_events is None:
        return events
    moves = (
        pl.when((pl.col("kind") == "communication") & (pl.col("role").cast(pl.String).fill_null("") == "barrier"))
        .then(_CODE["barrier"])
        .otherwise(
            pl.col("kind").cast(pl.String).replace_strict(_CODE, default=_CODE["compute"], return_dtype=pl.Int64)
        )
    )
    work = work_events.select(
        pl.col("row").cast(pl.Int64),
        moves.cast(pl.UInt8).alias("work_class"),
        pl.col("start_ns").alias("work_start_ns"),
        pl.col("end_ns").alias("work_end_ns"),
    )
    outside = pl.when("on_device").then(pl.lit(_CODE["outside"], dtype=pl.UInt8)).otherwise(pl.col("class"))
    return (
        events.join(work, on="row", how="left")
        .with_columns(
            pl.coalesce("work_class", outside).alias("class"),
            pl.when(pl.col("work_class").is_not_null())
            .then(pl.lit(_COUNTED, dtype=pl.UInt8))
            .otherwise("order")
            .alias("order"),
            pl.coalesce("work_start_ns", "start_ns").alias("start_ns"),
            pl.coalesce("work_end_ns", "end_ns").alias("end_ns"),
        )
        .drop("work_class", "work_start_ns", "work_end_ns")
    )


def _origin(events: pl.DataFrame) -> int:
    """Start of the first event that the report counts, else of the first event at all; absolute ns."""
    counted = events.filter(pl.col("class") < _CODE["outside"])
    for frame in (counted, events):
        if frame.height:
            return int(frame.select(pl.col("start_ns").min()).item())
    return 0


def _most_telling(events: pl.DataFrame, max_events: int) -> tuple[pl.DataFrame, dict[str, int]]:
    """The events to keep, and how many of each kind were left out."""
    if events.height <= max_events:
        return events, {}
    length = (pl.col("end_ns") - pl.col("start_ns")).alias("length_ns")
    ranked = events.select("order", length, "row").with_row_index("at")
    kept = events[
        ranked.sort("order", "length_ns", "row", descending=[False, True, False]).head(max_events).get_column("at")
    ]
    left = {name: int((events["order"] == o).sum()) - int((kept["order"] == o).sum())
            for o, name in _KEPT_NAMES.items()}  # fmt: skip
    return kept, {name: count for name, count in left.items() if count}


_TRACK = ["place", "device", "stream", "pid", "tid"]


def _with_track(events: pl.DataFrame) -> pl.DataFrame:
    """The events with the keys of their track, `_TRACK`."""
    on_stream = pl.col("stream").is_not_null()
    return events.with_columns(pl.col("pid", "tid").cast(pl.String).fill_null("")).with_columns(
        # A stream's work, what is written beside a stream, a host thread: the order in which they are stored.
        pl.when("on_device").then(0).when(on_stream).then(1).otherwise(2).cast(pl.UInt8).alias("place"),
        pl.when(on_stream).then(pl.lit("")).otherwise(pl.col("pid")).alias("pid"),
        pl.when(on_stream).then(pl.lit("")).otherwise(pl.col("tid")).alias("tid"),
    )


def _busiest(events: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, int]]:
    """The events of the tracks that are drawn; of the others, how many are of the device, and how many are not."""
    tracks = events.group_by(_TRACK).agg(pl.col("order").min(), pl.len().alias("num"))
    if tracks.height <= MAX_TRACKS:
        return events, {}
    drawn = tracks.sort("order", "num", *_TRACK, descending=[False, True, *[False] * 5]).head(MAX_TRACKS)
    kept = events.join(drawn, on=_TRACK, how="semi", nulls_equal=True)
    on_device = int(events["on_device"].sum()) - int(kept["on_device"].sum())
    beyond = {"device": on_device, "track": events.height - kept.height - on_device}
    return kept, {kind: number for kind, number in beyond.items() if number}


def _placed(keyed: pl.DataFrame, trace: Trace) -> tuple[list[TimelineTrack], list[TimelineGroup], pl.DataFrame]:
    """Tracks in drawing order, their groups, and the events sorted so that each drawn row is one slice."""
    stored = keyed.select(_TRACK).unique().sort(_TRACK, nulls_last=True).with_row_index("track")
    keyed = keyed.join(stored, on=_TRACK, how="left", nulls_equal=True)
    keyed = keyed.sort("track", "start_ns", "end_ns", "row", descending=[False, False, True, False])

    track = keyed.get_column("track").to_numpy()
    start = keyed.get_column("start_ns").to_numpy()
    end = keyed.get_column("end_ns").to_numpy()
    bounds = np.searchsorted(track, np.arange(stored.height + 1))
    depth = np.empty(track.size, dtype=np.int64)
    for first, last in pairwise(bounds.tolist()):
        depth[first:last] = nesting_depth(start[first:last], end[first:last])
    keyed = keyed.with_columns(pl.Series("depth", depth)).sort("track", "depth", "start_ns", "row")

    rows_of: dict[int, list[Any]] = {}
    first = 0
    for number, count in keyed.group_by("track", "depth", maintain_order=True).len().select("track", "len").iter_rows():
        rows_of.setdefault(number, []).append([first, count])
        first += count
    labels = _Labels(trace)
    groups: list[TimelineGroup] = []
    number_of: dict[tuple[object, ...], int] = {}
    tracks: list[TimelineTrack] = []
    for key in sorted(stored.to_dicts(), key=labels.sort_key):
        named, group = labels.of(key)
        number = number_of.setdefault(tuple(group.values()), len(groups))
        if number == len(groups):
            groups.append(group)
        tracks.append(cast(TimelineTrack, {"group": number, **named, "rows": rows_of[key["track"]]}))
    return tracks, groups, keyed


class _Labels:
    """What the file calls its processes, threads, devices and streams. Holds the file's tracks by (pid, tid)."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.tracks = {(t.pid, t.tid): t for t in trace.tracks}

    def sort_key(self, key: Mapping[str, Any]) -> tuple[Any, ...]:
        """Devices first, notes above their stream, then processes and threads as the file sorts them."""
        if key["stream"] is not None:
            return (0, key["device"], key["stream"], key["place"] == 0)
        process, thread = self.tracks.get((key["pid"], None)), self.tracks.get((key["pid"], key["tid"]))
        return (
            1,
            *_natural(process, key["pid"]),
            *_natural(thread, key["tid"]),
        )

    def of(self, key: Mapping[str, Any]) -> tuple[dict[str, Any], TimelineGroup]:
        """(track's label and kind, its group) for one track's key."""
        if key["stream"] is not None:
            device = self.trace.device(key["device"])
            named = self.tracks.get((str(key["device"]), str(key["stream"])))
            kind = "stream" if key["place"] == 0 else "notes"
            unnamed = f"stream {key['stream']}" if key["stream"] >= 0 else "whole device"
            label = (named.name.strip() if named and key["stream"] >= 0 else "") or unnamed
            group = " · ".join(part for part in (f"GPU {key['device']}", device.name) if part)
            track = {"label": label, "kind": kind, "device": key["device"], "stream": key["stream"]}
            return track, {"label": _cut(group, 120), "kind": "device"}
        process, thread = self.tracks.get((key["pid"], None)), self.tracks.get((key["pid"], key["tid"]))
        named_process = " ".join(part for part in (process.name, process.labels) if part) if process else ""
        label = (thread.name.strip() if thread else "") or f"thread {key['tid']}"
        group = f"{named_process or 'process'} · {key['pid']}"
        return {"label": _cut(label, 120), "kind": "thread"}, {"label": _cut(group, 120), "kind": "host"}


def _natural(track: Track | None, text: str) -> tuple[int, int, str]:
    """Sort by the file's index, then numbers as numbers, then text."""
    sort_index = track.sort_index if track else None
    return (sort_index or 0, int(text) if text.isdigit() and len(text) < 19 else 0, text)


def _names(names: pl.Series) -> tuple[list[str], npt.NDArray[np.int64], int]:
    """(unique names in order of appearance, index of each event's name, how many names were cut)."""
    frame = names.cast(pl.String).fill_null("").alias("name").to_frame()
    unique = frame.unique(maintain_order=True).with_row_index("code")
    codes = (
        frame.join(unique, on="name", how="left", maintain_order="left").get_column("code").to_numpy().astype(np.int64)
    )
    texts: list[str] = unique.get_column("name").to_list()
    limit = MAX_NAME_CHARS
    if sum(min(len(text), limit) for text in texts) > MAX_NAMES_CHARS:
        limit = max(16, MAX_NAMES_CHARS // len(texts))
    return [_cut(text, limit) for text in texts], codes, sum(len(text) > limit for text in texts)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _launch_of(events: pl.DataFrame, num_device: int) -> npt.NDArray[np.int64]:
    """For each device event, 1 + position of the launch call with its correlation id, or 0. Shape [num_device].

    Correlation 0 joins nothing: ROCm 6.1 wrote it on every communication kernel.
    """
    placed = events.select("correlation", "class").with_row_index("position").filter(pl.col("correlation") != 0)
    launches = placed.filter(pl.col("class") == _CODE["launch"]).unique("correlation", keep="first")
    device = events.head(num_device).select("correlation")
    found = device.join(launches, on="correlation", how="left", maintain_order="left").get_column("position")
    return (found.cast(pl.Int64) + 1).fill_null(0).to_numpy()


def _correlations(events: pl.DataFrame, num_device: int) -> tuple[int, npt.NDArray[np.int64]]:
    """(the smallest, how far each device event's is from it, plus 1; 0 for none). Those too far for a browser's numbers
    are left out."""
    known = events.head(num_device).get_column("correlation")
    known = known.set(known <= 0, None)
    first = int(known.min() or 0)  # type: ignore[arg-type] # of integers
    apart = known - first + 1
    return first, apart.set(apart >= MAX_DISTANCE_NS, None).fill_null(0).to_numpy()
