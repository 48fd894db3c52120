"""Who communicates with whom in a plain trace? Sends with receives by stage, collectives by whose ends agree."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import polars as pl

from weftrace.trace.plain.directions import both_ways, in_two_lanes, lane_names
from weftrace.trace.plain.values import PLACES, Worker
from weftrace.units import US

# A send or receive at stage s: which way, and the lower of the two stages that it joins, counted from s.
_WAYS = {
    "forward_send": ("forward", 0),
    "forward_recv": ("forward", -1),
    "backward_send": ("backward", -1),
    "backward_recv": ("backward", 0),
    "forward_send_backward_recv": ("both ways", 0),
    "backward_send_forward_recv": ("both ways", -1),
}
_ALIKE = 3.0  # times the spread of the ends that agree best, plus _JITTER_NS: those agree as well
_JITTER_NS = 20 * US
_BOTH_WAYS = (
    "the model runs through the pipeline in both directions, each on lanes of its own. Sends and receives are paired "
    "by their order in the step, on the lanes of neighbouring stages with ends that agree best"
)
_NAMED = re.compile("embedding|clip|grad|param|weight", re.IGNORECASE)  # those whose partners are known
_AGREED = 0.02  # of a step: ends of one collective lie no farther apart


def find_groups(events: pl.DataFrame, workers: Sequence[Worker]) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """group, comm_seq and group_size of each event, null where nothing tells its partners; and how they were found.

    events: worker, pid, tid, kind, rule, phase, step, micro_batch, chunk, seq, ts_ns, end_ns (laid).
    """
    places = [place for place in PLACES if len({dict(w.places).get(place) for w in workers} - {None}) > 1]
    if len(workers) == 1:
        places = [place for place, _ in workers[0].places]
    table = pl.DataFrame(
        [{"worker": i, **{p: dict(w.places).get(p) for p in places}} for i, w in enumerate(workers)],
        schema={"worker": pl.Int32(), **dict.fromkeys(places, pl.Int64())},
    )
    rows = events.with_row_index("row").filter(pl.col("kind") == "communication", pl.col("worker").is_not_null())
    rows = rows.drop(PLACES).join(table, on="worker", how="left", maintain_order="left")
    pairs, pair_notes = _pairs(rows.filter(pl.col("rule").is_in(_WAYS)), places, len(workers))
    others, notes = _collectives(
        rows.filter(~pl.col("rule").is_in([*_WAYS, "point_to_point"]) | pl.col("rule").is_null()),
        places, len(workers), _step_ns(events),
    )  # fmt: skip
    found = events.select(pl.int_range(pl.len(), dtype=pl.UInt32).alias("row"), "worker").join(
        pl.concat([pairs, others]), on="row", how="left", maintain_order="left"
    )
    found = found.with_columns(events.get_column("step"))
    number = pl.col("comm_seq")
    if len(workers) > 1:
        size = pl.col("worker").n_unique().over("group")
    else:  # the others are in other files, which may hold other steps
        size = pl.when(events.get_column("rule").is_in(list(_WAYS)).fill_null(False)).then(2)
        within = number - number.min().over("group", "step")
        number = pl.when(pl.col("step").is_null()).then(number).otherwise(_MOST_A_STEP * pl.col("step") + within)
    summary = pl.col("group").is_not_null()
    return found.select("group", number.alias("comm_seq"), pl.when(summary).then(size).alias("group_size")), (
        *pair_notes, *notes
    )  # fmt: skip


_FOUND = {"row": pl.UInt32(), "group": pl.String(), "comm_seq": pl.Int64()}
_MOST_A_STEP = 100_000  # communications of a group


def _pairs(rows: pl.DataFrame, places: list[str], num_workers: int) -> tuple[pl.DataFrame, list[str]]:
    """Sends and receives between neighbouring stages: the k-th of one with the k-th of the other in the step.

    What a first or last stage records of a neighbour that it has not got joins nothing: that takes no time. Where it
    does, the last stage sends to the first, as ranks that hold several chunks of the model do. In a file a rank the
    first stage does not know the last: their groups are called "PP -1-0" there, and "PP 3-4" (`wrapped`).
    """
    if rows.is_empty():
        return pl.DataFrame(schema=_FOUND), []
    if "pp" not in places:
        return pl.DataFrame(schema=_FOUND), ["sends and receives have no stage: who sent to whom is not known"]
    others = [place for place in places if place != "pp"]
    rows = rows.with_columns(lane=pl.concat_str("pid", "tid", separator="/").rank("dense").over("worker"))
    if num_workers > 1 and (found := both_ways(rows, others, one_clock=True)) is not None:
        found = found.join(rows.select("row", *others), on="row", maintain_order="left")
        named = found.with_columns(_called(others, pl.col("stages"), pl.col("way")))
        return _numbered(named, ["step", "k"]), [_BOTH_WAYS]
    way = pl.col("rule").replace_strict({rule: way for rule, (way, _) in _WAYS.items()}, return_dtype=pl.String)
    lower = pl.col("pp") + pl.col("rule").replace_strict(
        {rule: at for rule, (_, at) in _WAYS.items()}, return_dtype=pl.Int64
    )
    rows = rows.with_columns(way.alias("way"), lower.alias("lower"))
    outside = rows.filter(pl.col("lower") < 0).select(pl.col("end_ns") - pl.col("ts_ns")).to_series()
    wraps = len(outside) > 0 and float(np.median(outside.to_numpy())) > _JITTER_NS
    if wraps and num_workers > 1:
        rows = rows.with_columns(
            pl.when(pl.col("lower") < 0).then(pl.col("pp").max()).otherwise("lower").alias("lower")
        )
    in_two = pl.col("rule").is_in(in_two_lanes(rows).get_column("rule").implode()) & (num_workers == 1)
    rows = rows.with_columns(pl.when(in_two).then("lane").alias("lane"))
    side = [*others, "way", "lower", "worker", "lane"]
    rows = rows.sort("ts_ns", "row").with_columns(pl.int_range(pl.len()).over(*side, "step").alias("k"))
    pair = [*others, "way", "lower", "step"]
    if num_workers > 1:  # else the other side is in another file
        sides = rows.group_by(pair).agg(pl.col("worker").n_unique().alias("sides"))
        rows = rows.join(sides.filter(pl.col("sides") == 2), on=pair, nulls_equal=True)
        rows = _without_unlaunched(rows, pair)
    rows = rows.filter((pl.col("lower") >= 0) | wraps)
    stages = pl.concat_str(pl.lit("PP "), pl.col("lower"), pl.lit("-"), pl.col("lower") + 1)
    if num_workers == 1:  # which of two lanes is of which direction, the neighbours' files tell
        stages = pl.when(in_two).then(lane_names()).otherwise(stages)
    note = "sends and receives are paired by stage, and by their order in the step"
    return _numbered(rows.with_columns(_called(others, stages, pl.col("way"))), ["step", "k"]), [note]


def resolved(rows: pl.DataFrame, places: Sequence[str]) -> pl.DataFrame | None:
    """row, group and comm_seq of the sends and receives of a job with a file a rank, whose model runs through the
    pipeline in both directions; None of another. rows: as `both_ways` has them."""
    others = [place for place in places if place != "pp"]
    found = both_ways(rows, others, one_clock=False)
    if found is None:
        return None
    found = found.join(rows.select("row", *others), on="row", maintain_order="left")
    return _numbered(found.with_columns(_called(others, pl.col("stages"), pl.col("way"))), ["step", "k"])


def wrapped(groups: pl.Series, num_stages: int) -> pl.Series:
    """The groups as files a rank name them, with those of what the last stage sends to the first called as there."""
    return groups.cast(pl.String).str.replace(f"PP {num_stages - 1}-{num_stages} ", "PP -1-0 ", literal=True)


def _without_unlaunched(rows: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """Where one side records more than the other, its first or last are of transfers that never were: the ends tell
    how many to leave out at the beginning. Renumbers k so that partners have the same."""
    sizes = rows.group_by(*key, "worker").len().group_by(key).agg(pl.col("len").n_unique().alias("sizes"))
    uneven = sizes.filter(pl.col("sizes") > 1).drop("sizes")
    if uneven.is_empty():
        return rows
    even = rows.join(uneven, on=key, how="anti", nulls_equal=True)
    mended = [even]
    for _, part in rows.join(uneven, on=key, how="semi", nulls_equal=True).group_by(key, maintain_order=True):
        long, short = sorted(
            (p.sort("k") for _, p in part.group_by("worker", maintain_order=True)), key=len, reverse=True
        )
        surplus = len(long) - len(short)
        ends, other = long.get_column("end_ns"), short.get_column("end_ns")
        first = min(range(surplus + 1), key=lambda at: _median((ends.slice(at, len(other)) - other).abs()))
        kept = long.slice(first, len(short)).with_columns((pl.col("k") - first).alias("k"))
        mended += [kept, short]
    return pl.concat(mended)


def _collectives(
    rows: pl.DataFrame, places: list[str], num_workers: int, step_ns: float
) -> tuple[pl.DataFrame, list[str]]:
    """Each kind of collective among the ranks that differ in the places for which the ends agree best."""
    if rows.is_empty():
        return pl.DataFrame(schema=_FOUND), []
    rows = rows.sort("ts_ns", "row").with_columns(
        pl.int_range(pl.len()).over("worker", "phase", "step", "chunk").alias("nth")
    )
    rows = rows.with_columns(pl.coalesce("seq", "nth").alias("k"))
    found, notes = [], []
    for (phase,), mine in rows.group_by("phase", maintain_order=True):
        varied, why = _partition(mine, str(phase), places, num_workers, step_ns)
        if varied is None and not places:
            notes.append(f"{phase}: all ranks do not end it together: among those that do, each time")
            continue
        if varied is None:
            notes.append(f"{phase}: no ranks end it together, so it is matched with none")
            continue
        among = "all ranks" if set(varied) == set(places) or not places else f"ranks that differ in {_named(varied)}"
        notes.append(f"{phase}: among {among}{why}")
        kept = [place for place in places if place not in varied]
        mine = mine.with_columns(_called(kept, pl.lit(str(phase))))
        found.append(_numbered(mine, ["step", "chunk", "k"]))
    return pl.concat([pl.DataFrame(schema=_FOUND), *found]), notes


def _partition(
    rows: pl.DataFrame, phase: str, places: list[str], num_workers: int, step_ns: float
) -> tuple[tuple[str, ...] | None, str]:
    """The places in which partners differ, () for all ranks where no place is told; and why they are taken for them."""
    if num_workers == 1:
        return _by_name(phase, places), ""
    spreads = {}
    for size in range(min(1, len(places)), len(places) + 1):
        for varied in combinations(places, size):
            fixed = [place for place in places if place not in varied]
            together = (
                rows.group_by(*fixed, "step", "chunk", "k")
                .agg((pl.col("end_ns").max() - pl.col("end_ns").min()).alias("spread"), pl.col("worker").n_unique())
                .filter(pl.col("worker") > 1)
            )
            if together.height:
                spreads[varied] = float(together.get_column("spread").median())  # type: ignore[arg-type]
    best, most = min(spreads.values(), default=None), max(_AGREED * step_ns, _JITTER_NS)
    if best is None or best > most:
        return None, ""
    found = max((varied for varied, spread in spreads.items() if spread <= _ALIKE * best + _JITTER_NS), key=len)
    # Ranks of one tensor-parallel group come to all else together: what the name tells counts more.
    named = _by_name(phase, places) if _NAMED.search(phase) else ()
    if not set(named) <= set(found) and spreads.get(named, most + 1) <= most:
        return named, ", as its name says"
    return found, ", because their ends agree best" if places else ""


def _by_name(phase: str, places: list[str]) -> tuple[str, ...]:
    """Of a file with one rank, the ends of whose partners are in other files: what the name says."""
    words = phase.lower()
    if "tp" in words or "tensor" in words or "layernorm" in words:
        return tuple(place for place in places if place == "tp")
    if "embedding" in words or "clip" in words:
        return tuple(place for place in places if place in ("pp", "tp"))
    return tuple(place for place in places if place == "dp") or tuple(places)


def _numbered(rows: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """comm_seq: the place of each key among those of its group."""
    return rows.select(
        "row", "group", pl.struct(key).rank("dense").over("group").cast(pl.Int64).sub(1).alias("comm_seq")
    )


def _median(values: pl.Series) -> float:
    return float(np.median(values.to_numpy()))


def _called(places: list[str], *parts: pl.Expr) -> pl.Expr:
    """The group's name: the places that partners share, then the parts: "DP 0 TP 1 PP 2-3 forward"."""
    shared = [pl.concat_str(pl.lit(f"{PLACES[place]} "), pl.col(place)) for place in places]
    return pl.concat_str([*shared, *parts], separator=" ", ignore_nulls=True).alias("group")


def _named(places: Sequence[str]) -> str:
    return " and ".join(PLACES[place] for place in places)


def _step_ns(events: pl.DataFrame) -> float:
    """How long a step takes about; all of the trace where none is told."""
    spans = events.group_by("step").agg((pl.col("end_ns").max() - pl.col("ts_ns").min()).alias("span"))
    return float(spans.get_column("span").median() or 0)  # type: ignore[arg-type]
