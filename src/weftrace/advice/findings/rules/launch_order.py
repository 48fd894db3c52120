"""Do streams run in the order of their launches though nothing else holds them? Rule 4."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from weftrace.advice.changes import PerfectOverlap
from weftrace.advice.findings.evidence import Evidence
from weftrace.advice.findings.found import Found, Missing
from weftrace.advice.findings.rule_texts import rule_text
from weftrace.advice.findings.rules.exposed import communication_of, shorter
from weftrace.advice.findings.rules.places import where_of
from weftrace.analysis.findings import Number
from weftrace.analysis.intervals import covered, of_events
from weftrace.trace.work import Work
from weftrace.units import US, duration, percent

_LEAST_SHARE = 0.02  # of the time
_LATE_NS = 50 * US  # after its stream was free, and it was launched
_TOGETHER_NS = 3 * US  # with the start of what was launched before it
_AT_ONCE_NS = 10 * US  # after its end
_MOST, _NEARLY_ALL = 0.5, 0.8  # of the communication
_OVERLAP = 0.01  # of communication beside any work: less is none


def one_connection(evidence: Evidence) -> Iterator[Found | Missing]:
    """4: streams run in the order of their launches, so that communication overlaps nothing.

    Communication that was launched long before begins just when the kernel launched before it, on another stream, does:
    no wait for an event is over when a kernel begins. Or communication on several streams never overlaps anything, and
    begins when what was launched before it ends.
    """
    if not evidence.analysis.breakdown.communication_ns:
        yield Missing(what="no communication is recorded")
        return
    held = held_by_launch_order(evidence.work)
    if held is None:
        return
    hidden = evidence.analysis.breakdown.hidden_fraction or 0.0
    total = int(held.get_column("late_ns").sum())
    every = communication_of(evidence.inferred).filter(~pl.col("is_barrier"))
    one = evidence.trace.configuration.get("CUDA_DEVICE_MAX_CONNECTIONS") == "1"
    half = every.select("op", then_ns=pl.col("duration_ns") / 2)
    yield Found(
        sentence=f"Streams run in the order of their launches: {duration(total)} of communication "
        f"({percent(evidence.share(total))} of the time) overlaps no computation, though it was launched early.",
        cost_ns=total,
        evidence=(
            Number(name="communication that overlaps no computation", value=total, unit="ns"),
            Number(name="communication that is hidden", value=hidden, unit="share"),
            Number(name="collectives held by the order of launches", value=held.height, unit="count"),
        ),
        where=where_of([evidence.work], held, by="late_ns"),
        least=(shorter(f"half of communication hidden{_on(evidence.work)}", evidence.inferred, half),),
        most=(PerfectOverlap(),),
        confidence="high" if one else "medium",
        reason="" if one else "the trace does not tell CUDA_DEVICE_MAX_CONNECTIONS",
    )


def _on(work: Work) -> str:
    return "" if work.trace.rank is None else f" on rank {work.trace.rank}"


def are_held_by_launch_order(works: Sequence[Work]) -> bool:
    """Whether the streams of most devices are."""
    held = [held_by_launch_order(work) is not None for work in works if work.basis == "device"]
    return 2 * sum(held) > len(held) > 0


def held_by_launch_order(work: Work) -> pl.DataFrame | None:
    """Communication that the order of launches holds, with late_ns, the time in which no computation ran beside it;
    None where it is not so. See `one_connection`."""
    limits = rule_text("one-connection").thresholds
    events = work.events.drop_nulls("launch_ts_ns").sort("launch_ts_ns", "start_ns")
    between_stages = (pl.col("collective").cast(pl.String) == "send_recv").fill_null(False)
    events = events.filter(~between_stages)
    is_comm = pl.col("kind") == "communication"
    mine = events.filter(is_comm, (pl.col("role") != "barrier").fill_null(True))
    if mine.is_empty():
        return None
    computes = of_events(events.filter(~is_comm))
    took = (mine.get_column("end_ns") - mine.get_column("start_ns")).to_numpy()
    beside = covered(computes, mine.get_column("start_ns").to_numpy(), mine.get_column("end_ns").to_numpy())
    exposed = took - beside
    if beside.sum() > limits["most_overlap"] * took.sum() or exposed.sum() < _LEAST_SHARE * (
        work.end_ns - work.start_ns
    ):
        return None
    before = pl.col("stream").shift(1) != pl.col("stream")
    start, ready = pl.col("start_ns"), pl.max_horizontal(pl.col("end_ns").shift(1).over("stream"), "launch_ts_ns")
    late = before & (start - ready >= _LATE_NS)
    begun = late & (start - start.shift(1)).is_between(0, _TOGETHER_NS) & (pl.col("end_ns").shift(1) > start)
    ended = before & (start - pl.col("end_ns").shift(1)).is_between(-_AT_ONCE_NS // 10, _AT_ONCE_NS)
    told = events.select("kind", "role", begun=begun.fill_null(False), ended=ended.fill_null(False))
    told = told.filter(is_comm, (pl.col("role") != "barrier").fill_null(True))
    by_start = _share(told, "begun", mine) >= _MOST * _of_first_streams(mine)
    alone = mine.get_column("stream").n_unique() > 1 and beside.sum() <= _OVERLAP * took.sum()
    in_turn = alone and _share(told, "ended", mine) >= _NEARLY_ALL and of_events(mine).total_ns >= 0.99 * took.sum()
    if not (by_start or in_turn):
        return None
    return mine.with_columns(at=pl.lit(0, pl.Int32), late_ns=pl.Series(exposed))


def _share(told: pl.DataFrame, column: str, mine: pl.DataFrame) -> float:
    return float(told.get_column(column).sum()) / max(1, mine.height)


def _of_first_streams(mine: pl.DataFrame) -> float:
    """The part of communication on the stream that has most of it: others may follow it at once."""
    return float(mine.group_by("stream").len().get_column("len").max() or 0) / max(1, mine.height)  # type: ignore[arg-type]
