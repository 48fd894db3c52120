"""Of which pipeline stage is each rank? As ranges tell, or from who sends to whom."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from weftrace.advice.slowdown.pace import are_ranges
from weftrace.plan.inference.values import Inferred


def stages_of(inferred: Inferred) -> tuple[list[int], bool]:
    """Stage of each rank, by position, and whether several are known; all 0 where none are.

    Kernels: ranks that send to each other make a chain; its first is who sends first without having received. Where
    the pairs make no chains of one length, no stages are told.
    """
    number = len(inferred.works)
    if are_ranges(inferred):
        told = [
            dict(work.trace.plain.workers[0].places).get("pp") if work.trace.plain else None for work in inferred.works
        ]
        if None in told:
            return [0] * number, False
        stages = [stage for stage in told if stage is not None]
        return stages, len(set(stages)) > 1
    chained = _chained(inferred)
    if chained is None or len(set(chained.values())) < 2 or len(chained) < number:
        return [0] * number, False
    return [chained[at] for at in range(number)], True


def _chained(inferred: Inferred) -> Mapping[int, int] | None:
    pairs = _pairs(inferred)
    if pairs.is_empty():
        return None
    neighbours: dict[int, set[int]] = {}
    for a, b in pairs.select("a", "b").unique().iter_rows():
        neighbours.setdefault(a, set()).add(b)
        neighbours.setdefault(b, set()).add(a)
    first_send = dict(pairs.group_by("a").agg(pl.col("start_ns").min()).iter_rows())
    stages: dict[int, int] = {}
    lengths = set()
    for begin in sorted(neighbours, key=lambda at: (first_send.get(at, 1 << 62), at)):
        if begin in stages:
            continue
        ends = [at for at in _component(begin, neighbours) if len(neighbours[at]) == 1]
        head = begin if not ends else min(ends, key=lambda at: (first_send.get(at, 1 << 62), at))
        chain, at = [head], head
        while after := [other for other in sorted(neighbours[at]) if other not in chain]:
            at = after[0]
            chain.append(at)
        if len(chain) != len(_component(begin, neighbours)):
            return None
        stages |= {at: stage for stage, at in enumerate(chain)}
        lengths.add(len(chain))
    return stages if len(lengths) == 1 else None


def _component(begin: int, neighbours: Mapping[int, set[int]]) -> set[int]:
    seen, waiting = {begin}, [begin]
    while waiting:
        for other in neighbours[waiting.pop()] - seen:
            seen.add(other)
            waiting.append(other)
    return seen


def _pairs(inferred: Inferred) -> pl.DataFrame:
    """a, b, start_ns: sends between two ranks of the plan that meet, a the one that began sooner to send."""
    ops = inferred.plan.ops.select("meet").hstack(inferred.measured.select("at", "event", "start_ns", "end_ns"))
    met = ops.filter(pl.col("meet").is_not_null(), pl.len().over("meet") == 2)
    parts = []
    for at, work in enumerate(inferred.works):
        mine = met.filter(pl.col("at") == at)
        summary = work.events.select(pl.col("collective").cast(pl.String), "dst_rank")[mine.get_column("event")]
        parts.append(mine.hstack(summary).filter(pl.col("collective") == "send_recv"))
    every = pl.concat(parts) if parts else met.clear()
    if every.is_empty():
        return pl.DataFrame(schema={"a": pl.Int32, "b": pl.Int32, "start_ns": pl.Int64})
    sends = every.sort(pl.col("dst_rank").is_null(), "start_ns", maintain_order=True)
    return (
        sends.group_by("meet", maintain_order=True)
        .agg(a=pl.col("at").first(), b=pl.col("at").last(), start_ns=pl.col("end_ns").max(), num=pl.len())
        .filter(pl.col("num") == 2, pl.col("a") != pl.col("b"))
        .select("a", "b", "start_ns")
    )
