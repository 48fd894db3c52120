"""A critical path in the trace that it was found in, for Perfetto and chrome://tracing: the original, and one process
more.

Its first track is the path as it was replayed: parts that lie end to end and add up to the replayed span. The others
show the path's ops where they were measured, a track a stream or host thread, with arrows where it passes from one to
another. The two differ by the replay's error.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import polars as pl

from weftrace.advice.changed_plans import APART
from weftrace.advice.critical_paths import CriticalPath
from weftrace.errors import AdviceError
from weftrace.files.sources import DEFAULT_MAX_BYTES
from weftrace.plan.inference.threads.host import WAITING
from weftrace.plan.inference.values import FIRST_THREAD, Inferred
from weftrace.trace.chrome.annotate import Annotated, annotate, file_base_ns
from weftrace.units import US, duration, signed

PROCESS = "weftrace: critical path"  #: pid of the process that is added

#: Names that the trace viewer has for colours, by class. Perfetto takes no notice of them; it colours by name.
#: Source: ColorScheme in https://github.com/catapult-project/catapult (tracing/tracing/base/color_scheme.html)
COLOURS = {
    "compute": "rail_response", "communication": "detailed_memory_dump", "fused": "olive",
    "memory": "background_memory_dump", "launch": "rail_idle", "host": "generic_work", "dependency": "yellow",
    "SM wait": "terrible", "idle": "grey", "unrecorded": "bad",
}  # fmt: skip
_NAME = 60  # characters of the name of what runs beside a part


def annotate_path(
    inferred: Inferred,
    path: CriticalPath,
    out: str | os.PathLike[str],
    *,
    at: int = 0,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Annotated:
    """Copy the file of a rank byte for byte, with the critical path added; memory does not grow with the file.

    path: of `inferred`. at: the rank's position in `inferred.works`. max_bytes: limit on the decompressed size.
    Raises `AdviceError` where the file has a path already, or is the one to write; `TraceError` where it is not Chrome
    JSON, `OutputError` where `out` cannot be written.
    """
    trace = inferred.works[at].trace
    if any(track.pid == PROCESS for track in trace.tracks):
        raise AdviceError(f"{trace.path}: has a critical path already. Draw it into the original.")
    if os.path.exists(out) and os.path.exists(trace.path) and os.path.samefile(out, trace.path):
        raise AdviceError(f"{trace.path}: is the trace itself, which stays as it is. Write to another file.")
    return annotate(trace.path, path_events(inferred, path, at=at), out, max_bytes=max_bytes)


def path_events(inferred: Inferred, path: CriticalPath, *, at: int = 0) -> Iterator[dict[str, Any]]:
    """Trace-viewer events of a path, in the time base of the file of the rank at position `at`."""
    zero_ns = _zero_ns(inferred, at)
    replay = inferred.replay
    yield _named("process_name", 0, name=PROCESS)
    yield _named("process_labels", 0, labels=f"replay {signed(replay.error, 2)} off the measured span")
    yield _named("process_sort_index", 0, sort_index=-2)
    summary = f"the path as replayed: {duration(replay.replayed_ns)}, measured {duration(replay.span_ns)}"
    yield from _track(1, summary)
    parts = _told_parts(path)
    for part in parts.iter_rows(named=True):
        yield _slice(part, 1, part["class_"], zero_ns)
    yield from _measured(inferred, path, at, zero_ns)


def _zero_ns(inferred: Inferred, at: int) -> int:
    """The plan's 0 in the times of a rank's file: clocks of a job's ranks may have been moved to agree."""
    first = inferred.measured.filter(pl.col("at") == at, pl.col("event").is_not_null()).head(1)
    if first.is_empty():
        raise AdviceError(f"the rank at position {at} has no work on a device, so no path is drawn into its file.")
    work = inferred.works[at]
    moment = int(work.events.item(first.item(0, "event"), "start_ns"))
    return moment - int(first.item(0, "start_ns")) - file_base_ns(work.trace)


def _told_parts(path: CriticalPath) -> pl.DataFrame:
    """The path's parts with what is told of each: of the wait by which its op was reached, and what ran beside it."""
    names = path.times.plan.ops.get_column("name").cast(pl.String)
    known = path.path.select(
        "op", "confidence", "votes_for", "votes_against", "stream", "layer", "micro_batch",
        waited_for=names.gather(path.path.get_column("cause")),
    ).unique("op", keep="last")  # fmt: skip
    parts = path.parts.join(known, on="op", how="left", maintain_order="left")
    return parts.with_columns(
        beside=beside(path, parts),
        title=pl.when(class_="SM wait").then(pl.lit("SM wait: ") + pl.col("name")).otherwise("name"),
        start_ns="from_ns", end_ns="until_ns",
    )  # fmt: skip


def beside(path: CriticalPath, parts: pl.DataFrame) -> pl.Series:
    """Of each part, in words, what runs on other streams of its rank in its middle, and by how much that could start
    later.

    parts: rows with from_ns, until_ns, op and rank, in order of time. "" where nothing runs.
    """
    parts = parts.select("op", "rank", middle=(pl.col("from_ns") + pl.col("until_ns")) // 2).with_row_index("part")
    own = path.times.plan.ops.get_column("stream").gather(parts.get_column("op"))
    running = path.times.ops.select("rank", "stream", "start_ns", "end_ns", "name").with_columns(
        path.measured.get_column("event").is_not_null().alias("on_device"), slack_ns=pl.Series(path.slack_ns)
    ).filter("on_device").sort("start_ns")  # fmt: skip
    streams = running.select("rank", "stream").unique().sort("rank", "stream")
    at = parts.with_columns(own=own).join(streams, on="rank").filter(pl.col("stream") != pl.col("own")).sort("middle")
    found = at.join_asof(running, left_on="middle", right_on="start_ns", by=("rank", "stream"), check_sortedness=False)
    summary = found.filter(pl.col("end_ns") > pl.col("middle")).sort("part", "stream").group_by("part").agg(
        pl.format(
            "stream {}: {} (slack {} µs)",
            "stream", pl.col("name").cast(pl.String).str.slice(0, _NAME), (pl.col("slack_ns") / US).round(1),
        ).str.join(", ")
        .alias("beside")
    )  # fmt: skip
    return parts.join(summary, on="part", how="left", maintain_order="left").get_column("beside").fill_null("")


def _measured(inferred: Inferred, path: CriticalPath, at: int, zero_ns: int) -> Iterator[dict[str, Any]]:
    """The path's ops of one rank where they were measured, and arrows where it goes from one track to another."""
    tid_of: dict[int, int] = {}
    ops = path.path.drop("start_ns", "end_ns").with_columns(
        inferred.measured.select("start_ns", "end_ns", "at")[path.path.get_column("op").to_numpy()],
        waited_for=path.times.plan.ops.get_column("name").cast(pl.String).gather(path.path.get_column("cause")),
        title=pl.col("name").cast(pl.String), cause=pl.col("reached_by"), beside=pl.lit(""),
    )  # fmt: skip
    before: dict[str, Any] | None = None
    for number, op in enumerate(ops.iter_rows(named=True)):
        if op["at"] != at:
            before = None
            continue
        tid = tid_of.get(op["stream"])
        if tid is None:
            tid = tid_of[op["stream"]] = 2 + len(tid_of)
            yield from _track(tid, f"{stream_name(op['stream'])}, as measured")
        yield _slice(op, tid, op["class_"], zero_ns)
        if before is not None and before["stream"] != op["stream"]:
            yield from _arrow(number, before, op, tid_of, zero_ns)
        before = op


def stream_name(stream: int) -> str:
    """What a stream of an inferred plan is called."""
    if stream >= APART:
        return f"stream {stream - APART}, apart"
    return f"thread {stream - FIRST_THREAD}" if stream >= FIRST_THREAD else f"stream {stream}"


def _arrow(
    number: int, before: dict[str, Any], op: dict[str, Any], tid_of: dict[int, int], zero_ns: int
) -> Iterator[dict[str, Any]]:
    """From inside the one before, as near to its end as it may be, to where the other starts; inside the other where
    that began to wait before: no arrow goes back in time, for Perfetto leaves such out."""
    first, last = before["start_ns"], before["end_ns"] - 1
    leaves = max(min(last, max(first, op["start_ns"])), first)
    if op["what"] == "blocking" or op["title"] == WAITING:
        leaves = max(min(last, op["end_ns"] - 1), first)
    arrives = max(op["start_ns"], min(leaves, op["end_ns"] - 1))
    common = {"cat": "weftrace", "name": op["cause"], "id": number, "pid": PROCESS}
    yield {"ph": "s", **common, "tid": tid_of[before["stream"]], "ts": _us(zero_ns + leaves)}
    yield {"ph": "f", "bp": "e", **common, "tid": tid_of[op["stream"]], "ts": _us(zero_ns + arrives)}


def _track(tid: int, name: str) -> Iterator[dict[str, Any]]:
    yield _named("thread_name", tid, name=name)
    yield _named("thread_sort_index", tid, sort_index=tid)


def _named(kind: str, tid: int, **args: str | int) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": PROCESS, "tid": tid, "ts": 0, "args": args}


def _slice(part: dict[str, Any], tid: int, class_: str, zero_ns: int) -> dict[str, Any]:
    args = {
        "class": class_,
        "reached by": part["cause"],
        "waited for": part["waited_for"],
        "confidence": part["confidence"],
        "votes for": part["votes_for"],
        "votes against": part["votes_against"],
        "phase": part["phase"],
        "layer": part["layer"],
        "micro-batch": part["micro_batch"],
        "beside it": part["beside"] or None,
    }
    return {
        "ph": "X",
        "cat": "weftrace",
        "name": part["title"],
        "pid": PROCESS,
        "tid": tid,
        "ts": _us(zero_ns + part["start_ns"]),
        "dur": _us(part["end_ns"] - part["start_ns"]),
        "cname": COLOURS[class_],
        "args": {key: value for key, value in args.items() if value is not None},
    }


def _us(time_ns: int) -> Decimal:
    """Microseconds, exactly."""
    return Decimal(time_ns).scaleb(-3)
