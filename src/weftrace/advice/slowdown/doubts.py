"""May S of a job be told? Not where its plan is known to lack what ranks waited for."""

from __future__ import annotations

import polars as pl

from weftrace.advice.slowdown.absent import AbsentRanks
from weftrace.plan.inference.lanes.inferring import BETWEEN
from weftrace.plan.inference.replaying import MOST_ERROR
from weftrace.plan.inference.values import Inferred
from weftrace.units import US, counted, percent

_LEAST_SLOWDOWN = 0.99  # S below which the plan cannot be right: at its peers' pace no job takes longer
_UNPAIRED = 0.1  # of the receives
_FREE = 1.0  # times the time of all ops: lanes that were free for so long were held by what no file tells
_A_MARK_NS = 20 * US  # a receive that is shorter is none


def doubt_of(inferred: Inferred, absent: AbsentRanks, *, slowdown: float, error: float) -> str:
    """Why what slows the job down cannot be told from its replay, a clause; empty where it can be.

    error: of the replay, over the measured time.
    """
    if error > MOST_ERROR:
        return f"its replay is {percent(error)} off"
    if doubt := _of_receives(inferred, absent):
        return doubt
    is_free = pl.col("name") == BETWEEN
    ops = inferred.plan.ops.select(pl.col("name").cast(pl.String), "duration_ns")
    free, ran = (int(ops.filter(each).get_column("duration_ns").sum()) for each in (is_free, ~is_free))
    if free > _FREE * ran:
        return f"for {free / max(1, ran):.1f}× the time of all that is recorded, nothing shows why ranks waited"
    if slowdown < _LEAST_SLOWDOWN and not absent.clause:  # of absent ranks the waits are as measured
        return "with all ranks at one pace its replay takes longer than the job did, so some waits are inferred wrong"
    return ""


def _of_receives(inferred: Inferred, absent: AbsentRanks) -> str:
    """That many receives have no partner: then the waiting in them is taken for transfer."""
    held = inferred.plan.waits.filter(why="data").get_column("op").unique().implode()
    rows = inferred.plan.ops.select("meet").with_row_index("row").hstack(
        inferred.measured.select("at", "what", "event", length=pl.col("end_ns") - pl.col("start_ns"))
    )  # fmt: skip
    rows = rows.with_columns(is_open=pl.Series(absent.is_open)).filter(what="communication")
    parts = []
    for at, work in enumerate(inferred.works):
        mine = rows.filter(pl.col("at") == at, pl.col("event").is_not_null())
        facts = work.events.select(pl.col("collective", "rule").cast(pl.String), "dst_rank")
        parts.append(mine.hstack(facts[mine.get_column("event")]))
    every = pl.concat(parts)
    sends = pl.col("rule").str.ends_with("_send").fill_null(False) | pl.col("dst_rank").is_not_null()
    receives = every.filter(
        pl.col("collective") == "send_recv", ~sends, ~pl.col("is_open"), pl.col("length") > _A_MARK_NS
    )
    alone = receives.filter(pl.col("meet").is_null(), ~pl.col("row").is_in(held))
    if alone.height <= _UNPAIRED * receives.height:
        return _of_stages(inferred) if receives.is_empty() else ""
    return (
        f"{alone.height:,} of {counted(receives.height, 'receive')} found no send, so who waited for whom is not known"
    )


def _of_stages(inferred: Inferred) -> str:
    """That nothing tells what the stages of a pipeline passed to each other."""
    stages = [dict(work.trace.plain.workers[0].places).get("pp") for work in inferred.works if work.trace.plain]
    at = inferred.measured.get_column("at").to_numpy()
    op, on = (inferred.plan.waits.filter(why="data").get_column(name).to_numpy() for name in ("op", "on"))
    if len(set(stages)) < 2 or (at[op] != at[on]).any():
        return ""
    return "no receive of its pipeline's stages is recorded, so who waited for whom is not known"
