"""Are ranks of the job absent, whom those that are here may wait for?"""

from __future__ import annotations

from itertools import product
from math import prod

import polars as pl

from weftrace.plan.inference.values import Inferred
from weftrace.trace.plain.values import PLACES
from weftrace.units import counted

_ALONE = 0.25  # of the communication of some name: with nobody here, though of others' names some meet
_MOST_NAMED = 4


def absent_ranks(inferred: Inferred) -> str:
    """Which ranks have no file here, a clause; empty where none is known to be absent.

    Told by the world size that files state; by places of the job that no rank here has (DP 1 PP 3, where DP 1 and PP 3
    are known); by sends, receives and collectives that meet nobody.
    """
    present = len(inferred.works)
    numbers = {work.trace.rank for work in inferred.works}
    world = max(work.trace.world_size or 0 for work in inferred.works)
    if world > present:
        missing = [rank for rank in range(world) if rank not in numbers]
        few = f" ({_listed([f'rank {rank}' for rank in missing])})" if len(missing) <= _MOST_NAMED else ""
        verb = "has" if world - present == 1 else "have"
        return f"{world - present:,} of {world:,} ranks{few} {verb} no file here"
    places = [dict(work.trace.plain.workers[0].places) for work in inferred.works if work.trace.plain]
    told = [place for place in PLACES if places and all(place in each for each in places)]
    values = {place: sorted({each[place] for each in places}) for place in told}
    if told and prod(len(each) for each in values.values()) > present == len(places):
        here = {tuple(each[place] for place in told) for each in places}
        missing_places = [each for each in product(*values.values()) if each not in here]
        names = [
            " ".join(f"{PLACES[p]} {value}" for p, value in zip(told, each, strict=True) if len(values[p]) > 1)
            for each in missing_places[:_MOST_NAMED]
        ]
        return f"{counted(len(missing_places), 'rank')} of the job ({_listed(names)}) not here"
    return _alone(inferred)


def _alone(inferred: Inferred) -> str:
    """Communication that meets nobody."""
    ops = inferred.plan.ops.select(pl.col("name").cast(pl.String), "meet").hstack(inferred.measured.select("what"))
    held = set(inferred.plan.waits.filter(why="data").get_column("op").to_list())
    rows = ops.with_row_index("row").filter(pl.col("what") == "communication")
    sends = pl.col("name").str.contains("(?i)send")  # that wait for nobody, as some do
    lonely = pl.col("meet").is_null() & ~pl.col("row").is_in(list(held)) & ~sends
    by_name = rows.group_by("name").agg(lonely.mean().alias("alone"), pl.len())
    odd = by_name.filter(pl.col("alone") >= _ALONE).sort("name")
    if odd.is_empty() or by_name.filter(pl.col("alone") < _ALONE).is_empty():
        return ""
    return f"Of {_listed(odd.get_column('name').head(2).to_list())}, many meet no rank that is here"


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
