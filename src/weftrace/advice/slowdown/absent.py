"""Which ranks of the job have no file here, and which communication may have waited for them?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.advice.absent_ranks import LEAST_REPEATS, absent_from
from weftrace.advice.slowdown.found import Found
from weftrace.advice.slowdown.pace import are_ranges
from weftrace.plan.inference.values import Inferred
from weftrace.trace.plain.values import PLACES, Worker
from weftrace.units import US, counted, listed

_A_MARK_NS = 20 * US  # a receive that is shorter is none
_MOST_NAMED = 4

_Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AbsentRanks:
    """Ranks of the job without a file here.

    clause: who they are, "rank 3 of 8 has no file here"; empty where none is known to be absent. is_open: of each op of
    the plan whether it is communication that may have waited for one of them, [ops].
    """

    clause: str
    is_open: _Bools


def absent_ranks(inferred: Inferred) -> AbsentRanks:
    """Whose files are missing, told by the world size and the groups that files state, by places of the job that no
    rank here has (DP 1 PP 3, where DP 1 and PP 3 are known), and by a last stage that receives from one behind it."""
    is_open = _open(inferred)
    clause = _by_number(inferred) or _by_place(inferred) or _beyond(inferred)
    return AbsentRanks(
        clause=clause, is_open=is_open if clause or not are_ranges(inferred) else np.zeros(len(is_open), bool)
    )


def waiting_for(absent: AbsentRanks, ops: pl.DataFrame) -> Iterator[Found]:
    """The time that those here may have waited for absent ranks, as a cause: at most all of such communication (the
    repair); at least what is longer than the fastest of its type (`each`). ops: frame of `pace.PACED`."""
    if not absent.clause or not absent.is_open.any():
        return
    types = ops.select("type", "duration_ns", communicates=pl.col("group").is_not_null() | pl.Series(absent.is_open))
    floors = types.filter("communicates").group_by("type").agg(least=pl.col("duration_ns").min(), number=pl.len())
    joined = types.join(floors.filter(pl.col("number") >= LEAST_REPEATS), on="type", how="left", maintain_order="left")
    own = ops.get_column("duration_ns").to_numpy()
    least = joined.get_column("least").fill_null(np.inf).to_numpy()
    yield Found(
        kind="absent ranks",
        repaired_ns=np.where(absent.is_open, 0.0, own),
        each=(np.where(absent.is_open, np.minimum(own, least), own),),
        evidence=f"{absent.clause}; {counted(int(absent.is_open.sum()), 'communication')} may wait for absent ranks",
        details={"clause": absent.clause},
    )


# --- who --------------------------------------------------------------------------------------------------------------


def _by_number(inferred: Inferred) -> str:
    numbers = {work.trace.rank for work in inferred.works}
    if None in numbers:
        return ""
    told = max(work.trace.world_size or 0 for work in inferred.works)
    if told in (0, len(numbers)) and numbers == set(range(1, len(numbers) + 1)):  # they count from 1
        return ""
    world = max(told, *((work.trace.rank or 0) + 1 for work in inferred.works))
    named = set().union(*(_members(work.events.get_column("group_ranks")) for work in inferred.works))
    missing = sorted((set(range(world)) | named) - numbers)
    if not missing:
        return ""
    number = f"{max(world, len(numbers) + len(missing)):,}"
    if len(missing) == 1:
        return f"rank {missing[0]} of {'' if told else 'at least '}{number} has no file here"
    few = f" ({listed(missing)})" if len(missing) <= _MOST_NAMED else ""
    return f"{'' if told else 'at least '}{len(missing):,} of {number} ranks{few} have no file here"


def _members(column: pl.Series) -> set[int]:
    """Ranks of groups, as files list them."""
    texts = column.drop_nulls().unique().cast(pl.String)
    return {int(rank) for text in texts for rank in re.findall(r"\d+", text)}


def _by_place(inferred: Inferred) -> str:
    workers = [worker for work in inferred.works for worker in _workers(work.trace.plain)]
    places = [dict(worker.places) for worker in workers]
    told = [place for place in PLACES if places and all(place in each for each in places)]
    if "ep" in told and _follows("ep", told, places):  # expert-parallel ranks are data-parallel ones by another name
        told.remove("ep")
    values = {place: range(max(each[place] for each in places) + 1) for place in told}  # they count from 0
    here = {tuple(each[place] for place in told) for each in places}
    if not told or prod(len(each) for each in values.values()) <= len(here) or len(here) < len(workers):
        return ""
    missing = [each for each in product(*values.values()) if each not in here]
    names = [
        " ".join(f"{PLACES[p]} {value}" for p, value in zip(told, each, strict=True) if len(values[p]) > 1)
        for each in missing[:_MOST_NAMED]
    ]
    more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
    verb = "has" if len(missing) == 1 else "have"
    return f"{listed(names) if not more else ', '.join(names) + more} {verb} no file here"


def _follows(place: str, told: Sequence[str], places: Sequence[Mapping[str, int]]) -> bool:
    """Whether the other places tell this one."""
    others = [tuple(each[other] for other in told if other != place) for each in places]
    return len(set(others)) == len({(*other, each[place]) for other, each in zip(others, places, strict=True)})


def _workers(plain: object) -> Sequence[Worker]:
    found: Sequence[Worker] = getattr(plain, "workers", ())[:1]
    return found


# --- what waits -------------------------------------------------------------------------------------------------------


def _open(inferred: Inferred) -> _Bools:
    number = inferred.plan.ops.height
    found = np.zeros(number, bool)
    if not are_ranges(inferred):
        found[absent_from(inferred).ops] = True
        return found
    rows = _communication(inferred)
    most = pl.col("members").max().over("name")
    waits = rows.filter(pl.col("members") < most, ~pl.col("held") & ~pl.col("is_send") | (pl.col("members") > 1))
    found[waits.get_column("row").to_numpy()] = True
    alone = rows.filter(most == 1, pl.col("what") == "communication")
    found[_incomplete(inferred, rows)] = True
    if (rows.get_column("members") == 1).all():  # then it may all be with ranks that are not here
        found[alone.get_column("row").to_numpy()] = True
    return found


def _incomplete(inferred: Inferred, rows: pl.DataFrame) -> NDArray[np.int64]:
    """Collectives of a group that has places of the job which no rank here has. By hand: a gather in which DP 0 and
    DP 2 of one stage meet is one over data-parallel ranks; if DP 3 is known, it has four members."""
    places = [dict(workers[0].places) if (workers := _workers(work.trace.plain)) else {} for work in inferred.works]
    told = [place for place in PLACES if places and all(place in each for each in places)]
    if "ep" in told and _follows("ep", told, places):
        told.remove("ep")
    if not told:
        return np.empty(0, np.int64)
    columns = {place: [each[place] for each in places] for place in told}
    frame = pl.DataFrame({"at": range(len(places)), **columns}, schema_overrides={"at": pl.Int32})
    met = rows.filter(~pl.col("name").str.contains("(?i)send|recv|p2p"), pl.col("meet").is_not_null())
    met = met.join(frame, on="at", how="left")
    spans = met.group_by("name", "meet").agg(pl.col(told).n_unique() > 1)
    over = spans.group_by("name").agg(pl.col(told).any())
    sizes = [
        (name, prod(max(columns[place]) + 1 for place, is_over in zip(told, flags, strict=True) if is_over))
        for name, *flags in over.iter_rows()
    ]
    whole = pl.DataFrame(sizes, schema={"name": pl.String, "whole": pl.Int64}, orient="row")
    return met.join(whole, on="name").filter(pl.col("members") < pl.col("whole")).get_column("row").to_numpy()


def _communication(inferred: Inferred) -> pl.DataFrame:
    """row, name, members (ranks here that meet in it), held (whether it waits for a send), is_send."""
    ops = inferred.plan.ops.select(pl.col("name").cast(pl.String), "meet").hstack(
        inferred.measured.select("what", "at")
    )
    held = inferred.plan.waits.filter(why="data").get_column("op").unique().implode()
    members = pl.when(pl.col("meet").is_null()).then(1).otherwise(pl.len().over("meet"))
    return ops.with_row_index("row").filter(pl.col("what") == "communication").with_columns(
        members=members, held=pl.col("row").is_in(held), is_send=pl.col("name").str.contains("(?i)send"),
    )  # fmt: skip


def _beyond(inferred: Inferred) -> str:
    """That stages are absent behind the last that is here, which receives from them."""
    stages = [dict(worker.places).get("pp") for work in inferred.works for worker in _workers(work.trace.plain)]
    known = [stage for stage in stages if stage is not None]
    if not known or len(known) < len(stages):
        return ""
    rules = [work.events.select("rule", pl.col("end_ns") - pl.col("start_ns")) for work in inferred.works]

    def receives(stage: int, way: str) -> bool:
        mine = pl.concat([rule for rule, at in zip(rules, known, strict=True) if at == stage])
        lengths = mine.filter(pl.col("rule").cast(pl.String) == f"{way}_recv").get_column("end_ns").to_numpy()
        return len(lengths) > 0 and float(np.median(lengths)) > _A_MARK_NS

    if receives(max(known), "backward") and not receives(0, "forward"):
        return f"stage {max(known) + 1}, which sends to stage {max(known)}, has no file here"
    return ""
