"""Whose is each event of a plain trace: which rank of the job, and which place of it in the model's parallelism?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from weftrace.trace.model import Track
from weftrace.trace.plain.values import PLACES, SHOWN, Worker

_RANKED = r"(?:[ _-]?(?:rank|id|group|stage))?[ _\-#:=]*[\[(]?\s*(\d{1,6})"
_PLACE_IN_TEXT = {
    "dp": re.compile(rf"(?<![a-z])(?:dp|data[ _-]?parallel|replica){_RANKED}", re.IGNORECASE),
    "pp": re.compile(rf"(?<![a-z])(?:pp|pipeline[ _-]?parallel|pipeline|stage){_RANKED}", re.IGNORECASE),
    "tp": re.compile(rf"(?<![a-z])(?:tp|tensor[ _-]?parallel){_RANKED}", re.IGNORECASE),
    "cp": re.compile(rf"(?<![a-z])(?:cp|context[ _-]?parallel){_RANKED}", re.IGNORECASE),
    "ep": re.compile(rf"(?<![a-z])(?:ep|expert[ _-]?parallel){_RANKED}", re.IGNORECASE),
    "rank": re.compile(r"(?<![a-z])rank[ _\-#:=]*[\[(]?\s*(\d{1,6})", re.IGNORECASE),
    "device": re.compile(r"(?<![a-z])(?:worker|gpu|device)[ _\-#:=]*[\[(]?\s*(\d{1,6})", re.IGNORECASE),
}
_MOST = 0.5  # of the events must tell what is taken for a rank
_OVERLAPPING = 0.1  # of the ranges of a thread that start before another stage's has ended: it shows several ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """The ranks of a plain trace. worker: of each event, its position in workers; null where it is of none.

    chunk: of each event, where what the file calls a stage is a part of the model that a rank holds several of.
    """

    workers: tuple[Worker, ...]
    worker: pl.Series
    chunk: pl.Series | None
    notes: tuple[str, ...]


def find_ranks(events: pl.DataFrame, tracks: Sequence[Track], *, rank: int | None) -> Ranks:
    """Decide what the ranks are.

    events: phase, kind, pid, tid, ts_ns, dur_ns of each event, and what its arguments and its name say: rank, device
    and the places. tracks: the file's names of processes and threads. rank: what the file's name says of a file that
    holds one rank.
    """
    places = _places(events, tracks)
    frame = events.select(pl.col("pid", "tid").cast(pl.String), "ts_ns", "dur_ns").hstack(places.frame)
    chunk = None
    for field in ("rank", "device"):
        summary = frame.get_column(field)
        if summary.len() - summary.null_count() >= _MOST * summary.len() and (field == "rank" or _varies(frame, field)):
            by = [field]
            why = f"ranks are identified by {places.source_of(field)}"
            break
    else:
        present = [p for p in PLACES if frame.get_column(p).drop_nulls().len() >= _MOST * frame.height]
        if "pp" in present and (by_thread := _holder_of_stages(frame, [p for p in present if p != "pp"])):
            chunk = frame.get_column("pp")
            present.remove("pp")
            frame = frame.with_columns(pl.lit(None, dtype=pl.Int64).alias("pp"))
            why = (
                f"each {'thread' if by_thread == 'tid' else 'process'} holds several stages: they are parts of one rank"
            )
            by = ["pid", *(["tid"] if by_thread == "tid" else []), *present]
        elif present:
            by = _with_process(frame, present)
            sources = "; ".join(f"{PLACES[p]} by {places.source_of(p)}" for p in present if _varies(frame, p))
            why = "ranks are identified by their places" + (f": {sources}" if sources else "")
            why += " and by the process" * ("pid" in by)
        elif frame.get_column("pid").n_unique() > 1 and events.filter(kind="compute").get_column("dur_ns").sum():
            by, why = ["pid"], "no event names its rank: each process is taken for one"
        elif _threads_alike(events, frame):
            by, why = ["tid"], "no event names its rank, and the threads run the same: each thread is taken for one"
        else:
            by, why = [], "no event names its rank: all is taken for one"
    return _numbered(frame, by, chunk, why, rank, tracks)


# --- places, and their sources ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Places:
    """rank, device and places of each event, and the source of each."""

    frame: pl.DataFrame
    source: Mapping[str, str]

    def source_of(self, field: str) -> str:
        return self.source.get(field, "the events")


def _places(events: pl.DataFrame, tracks: Sequence[Track]) -> _Places:
    """Arguments first, then the thread's name, then the process's."""
    names = {(track.pid, track.tid): f"{track.name} {track.labels}" for track in tracks}
    threads = events.select(pl.col("pid", "tid").cast(pl.String)).unique()
    texts = [
        ("the thread's name", [f"{names.get((pid, tid), '')} {_text(tid)}" for pid, tid in threads.iter_rows()]),
        ("the process's name", [f"{names.get((pid, None), '')} {_text(pid)}" for pid, _ in threads.iter_rows()]),
    ]
    columns, source = {}, {}
    keys = events.select(pl.col("pid", "tid").cast(pl.String))
    for field in (*PLACES, "rank", "device"):
        values = events.get_column(field)
        found = [("arguments", values)] if values.drop_nulls().len() else []
        for source_name, lines in texts:
            numbers = [_in_text(field, line) for line in lines]
            if any(number is not None for number in numbers):
                named = threads.with_columns(pl.Series("number", numbers, dtype=pl.Int64))
                joined = keys.join(named, on=("pid", "tid"), how="left", maintain_order="left", nulls_equal=True)
                found.append((source_name, joined.get_column("number")))
        series = [part for _, part in found]
        merged = pl.select(pl.coalesce(series)).to_series() if series else values
        source[field] = " and ".join(name for name, _ in found)
        columns[field] = _filled(keys, merged.cast(pl.Int64)).alias(field)
    return _Places(pl.DataFrame(columns), source)


def _text(label: str | None) -> str:
    """A pid or tid that is a text; a number tells nothing."""
    return "" if label is None or label.lstrip("-").isdigit() else label


def _in_text(field: str, text: str) -> int | None:
    """The number of a place in a name; a rank is none where "rank" belongs to a place ("DP rank [0]")."""
    if field in ("rank", "device"):
        for place in PLACES:
            text = _PLACE_IN_TEXT[place].sub(" ", text)
    match = _PLACE_IN_TEXT[field].search(text)
    return int(match[1]) if match else None


def _filled(keys: pl.DataFrame, values: pl.Series) -> pl.Series:
    """What an event does not tell, its thread's others do where they agree."""
    if not values.null_count() or values.null_count() == values.len():
        return values
    frame = keys.with_columns(values.alias("value"))
    only = (
        frame.drop_nulls("value")
        .group_by("pid", "tid")
        .agg(pl.col("value").first().alias("only"), pl.col("value").n_unique().alias("num"))
    )
    joined = frame.join(only.filter(pl.col("num") == 1), on=("pid", "tid"), how="left", maintain_order="left")
    return joined.select(pl.coalesce("value", "only")).to_series()


# --- which of it makes a rank -----------------------------------------------------------------------------------------


def _varies(frame: pl.DataFrame, field: str) -> bool:
    return frame.get_column(field).drop_nulls().n_unique() > 1


def _holder_of_stages(frame: pl.DataFrame, others: list[str]) -> str | None:
    """ "pid" or "tid" where each process, or thread, holds stages that no other does, one at a time: an interleaved
    pipeline numbers its parts of the model, and a rank holds several. None where a stage is a rank."""
    known = frame.drop_nulls("pp")
    for by in (["pid"], ["pid", "tid"]):
        of_each = known.group_by(*by).agg(pl.col("pp").n_unique().alias("num"))
        of_stage = known.select(*by, *others, "pp").unique().group_by(*others, "pp").len()
        apart = of_each.height > 1 and of_each.get_column("num").max() != 1 and of_stage.get_column("len").max() == 1
        if apart and _overlap_of_stages(known, by) < _OVERLAPPING:
            return by[-1]
    return None


def _overlap_of_stages(frame: pl.DataFrame, by: list[str]) -> float:
    """Which share of the ranges starts before one of another stage, of the same holder, has ended."""
    ordered = frame.sort("ts_ns").with_columns((pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"))
    early = (pl.col("ts_ns") < pl.col("end_ns").shift(1)) & (pl.col("pp") != pl.col("pp").shift(1))
    return float(ordered.select(early.over(by).fill_null(False).mean()).item() or 0.0)


def _with_process(frame: pl.DataFrame, present: list[str]) -> list[str]:
    """The places, with the process where several share a place: those are replicas that no place tells apart."""
    return (
        ["pid", *present]
        if frame.select("pid", *present).unique().group_by(present).len()["len"].max() != 1
        else present
    )


def _threads_alike(events: pl.DataFrame, frame: pl.DataFrame) -> bool:
    """Whether several threads of the one process each run forwards: a schedule with a thread for each rank."""
    runs = events.select("phase").with_columns(frame.get_column("tid")).unique()
    forward = runs.filter(pl.col("phase").str.contains(r"(?i)^(?:f|fwd|forward)"))
    return forward.get_column("tid").n_unique() > 1


def _numbered(frame: pl.DataFrame, by: list[str], chunk: pl.Series | None, why: str, rank: int | None,
              tracks: Sequence[Track]) -> Ranks:  # fmt: skip
    """Workers in order, each with a number, a name and its places."""
    constant = [p for p in PLACES if p not in by]
    found = (
        frame.group_by(by or pl.lit(0).alias("one"), maintain_order=True)
        .agg(*(pl.when(pl.col(p).drop_nulls().n_unique() == 1).then(pl.col(p).drop_nulls().first()) for p in constant))
        .drop_nulls(by)
    )
    order = [field for field in ("rank", "device", *PLACES, "pid", "tid") if field in by]
    keys = [pl.col(f).cast(pl.Int64, strict=False) if f in ("pid", "tid") else pl.col(f) for f in order]
    found = found.sort([*keys, *(f for f in order if f in ("pid", "tid"))], nulls_last=True) if order else found
    summary = {place: found.get_column(place).drop_nulls().n_unique() > 1 for place in PLACES}
    labels = {(track.pid, track.tid): track.name for track in tracks}
    workers = []
    for position, row in enumerate(found.to_dicts()):
        places = tuple((place, row[place]) for place in SHOWN if row.get(place) is not None)
        number = row.get("rank", row.get("device"))
        if number is None:
            number = position if found.height > 1 else rank
        name = " ".join(f"{PLACES[place]} {value}" for place, value in places if summary[place])
        if "pid" in by and (not name or "tid" not in by):
            name = " ".join((labels.get((row["pid"], None), "") or f"process {row['pid']}", name)).strip()
        if "tid" in by:
            name = labels.get((row.get("pid", frame["pid"][0]), row["tid"]), "") or f"thread {row['tid']}"
        workers.append(Worker(rank=number, name=name, places=places))
    if len({worker.name for worker in workers}) < len(workers):
        workers = [replace(w, name=called(w.rank, w.name)) for w in workers]
    notes = [why]
    if not {"rank", "device"} & set(by) and len(workers) > 1:
        notes.append(
            f"the file does not number its ranks: they count from 0, in order of {_order_words(order, summary)}"
        )
    worker = pl.Series("worker", [0], dtype=pl.Int32).new_from_index(0, frame.height)
    if by:
        table = found.select(by).with_columns(pl.int_range(pl.len(), dtype=pl.Int32).alias("worker"))
        worker = frame.select(by).join(table, on=by, how="left", maintain_order="left").get_column("worker")
    return Ranks(workers=tuple(workers), worker=worker, chunk=chunk, notes=tuple(notes))


def called(rank: int | None, name: str) -> str:
    """What a rank is called whose places are another's too: "rank 4 (PP 0)"."""
    return f"rank {rank} ({name})" if name and rank is not None else name


def _order_words(order: list[str], summary: Mapping[str, bool]) -> str:
    named = [
        PLACES.get(field, {"pid": "process", "tid": "thread"}.get(field, field))
        for field in order
        if summary.get(field, True)
    ]
    return ", then ".join(named)
