"""Are many kernels too short to be worth a launch of their own? Rule 16."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from weftrace.advice.changes import Change
from weftrace.advice.findings.evidence import Evidence
from weftrace.advice.findings.found import Found
from weftrace.advice.findings.rule_texts import rule_text
from weftrace.advice.findings.rules.host import is_host_bound, own_idle
from weftrace.advice.findings.rules.host_idle import charged, of_step, place_of, time_of, where_of
from weftrace.advice.findings.values import Number
from weftrace.advice.op_times import op_times
from weftrace.analysis.intervals import Array, of_events
from weftrace.units import duration, percent

#: Less of the cost than that in gaps before which the device waited for a launch: the host is ahead, and hides them.
_LEAST_IN_GAPS = 0.25


def tiny_kernels(evidence: Evidence) -> Iterator[Found]:
    """16: much of a step is kernels of some microseconds, each launched alone, and gaps before them."""
    limits, work = rule_text("tiny-kernels").thresholds, evidence.work
    together = pl.len().over("launch_pid", "launch_tid", "launch_ts_ns") > 1  # nodes of a graph have no launch each
    took = pl.col("end_ns") - pl.col("start_ns")
    is_kernel = pl.col("kind").is_in(("compute", "fused"))
    is_tiny = is_kernel & (took <= limits["most_ns"]) & pl.col("launch_ts_ns").is_not_null() & ~together
    events = work.events.with_row_index("at").with_columns(is_tiny.alias("tiny"))
    tiny, kernels = events.filter("tiny"), events.filter(is_kernel)
    if tiny.height < limits["least_share_of_kernels"] * max(1, kernels.height):
        return
    alone_ns = (of_events(tiny) - of_events(events.filter(~pl.col("tiny")))).total_ns
    before = np.isin(evidence.idle_pieces.gaps.events.get_column("row").to_numpy(), tiny.get_column("row").to_numpy())[
        evidence.idle_pieces.gap
    ]
    own = own_idle(evidence)
    launched, turned = before & own, before & charged(evidence, ("turnaround",))
    launched_ns, whole_ns = time_of(evidence, launched), alone_ns + time_of(evidence, before & (own | turned))
    if evidence.share(whole_ns) < limits["least_share"] or launched_ns < _LEAST_IN_GAPS * whole_ns:
        return
    counted_elsewhere = launched_ns if is_host_bound(evidence, time_of(evidence, own)) else 0
    most, least = _fused(evidence, tiny.get_column("at").to_numpy(), events)
    names = tiny.group_by("name").agg(took.sum().alias("ns")).sort("ns", "name", descending=[True, False])
    place = place_of(evidence, launched)
    share = tiny.height / kernels.height
    yield Found(
        sentence=f"{percent(share, 0)} of the kernels take at most {duration(limits['most_ns'])}: they and the gaps "
        f"before them take {of_step(evidence, whole_ns, '')}.",
        cost_ns=whole_ns - counted_elsewhere,
        evidence=(
            Number(name="time of short kernels alone, and of gaps before them", value=whole_ns, unit="ns"),
            Number(name="share of kernels", value=share, unit="share"),
            Number(name="short kernels per step", value=tiny.height / max(1, evidence.num_steps), unit="count"),
        ),
        where=where_of(
            evidence, launched, place, kernels=tuple(names.get_column("name").cast(pl.String).head(3).to_list())
        ),
        least=least,
        most=most,
        not_told="" if most else "no two of them follow each other",
    )


def _fused(evidence: Evidence, tiny: Array, events: pl.DataFrame) -> tuple[tuple[Change, ...], tuple[Change, ...]]:
    """Of each chain of short kernels that follow one another on a stream all but the longest left out, and half."""
    chains = events.select("at", "stream", "tiny", "start_ns", took=pl.col("end_ns") - pl.col("start_ns"))
    chains = chains.sort("stream", "start_ns", "at").with_columns(chain=(~pl.col("tiny")).cum_sum().over("stream"))
    chains = chains.filter("tiny").with_columns(number=pl.int_range(pl.len()).over("stream", "chain"))
    gone = (
        chains.filter(pl.col("number") != pl.col("took").arg_max().over("stream", "chain")).get_column("at").to_numpy()
    )
    half = chains.filter(pl.col("number") % 2 == 1).get_column("at").to_numpy()
    if not len(gone):
        return (), ()
    whose = "" if evidence.trace.rank is None else f" on rank {evidence.trace.rank}"
    whose += f", device {evidence.work.device}"
    return (
        (op_times(f"one kernel for each chain of short ones{whose}", evidence.work, gone, 0, frees_launches=True),),
        (op_times(f"half as many short kernels{whose}", evidence.work, half, 0, frees_launches=True),),
    )
