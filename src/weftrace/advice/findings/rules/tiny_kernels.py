"""Are many kernels too short to be worth a launch of their own? Rule 16."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from weftrace.advice.changes import Change, Scale
from weftrace.advice.findings.evidence import Evidence
from weftrace.advice.findings.found import Found
from weftrace.advice.findings.rule_texts import rule_text
from weftrace.advice.findings.rules.host import is_host_bound, own_idle
from weftrace.advice.findings.rules.host_idle import charged, of_step, pattern_of, place_of, time_of, where_of
from weftrace.advice.op_times import op_times
from weftrace.analysis.findings import Number
from weftrace.analysis.intervals import of_events
from weftrace.units import duration, percent

#: Less of the cost than that in gaps before which the device waited for a launch: the host is ahead, and hides them.
_LEAST_IN_GAPS = 0.25
#: An operator with so many short ones among its kernels launches hardly any others.
_MOSTLY = 0.8
#: What passes until the next launch beyond that is not for this one.
_MOST_OF_LAUNCH_NS = 100_000


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
    own_ns, launched, turned = time_of(evidence, own), before & own, before & charged(evidence, ("turnaround",))
    launched_ns = max(time_of(evidence, launched), min(own_ns, _lost_lead(events)))
    whole_ns = alone_ns + time_of(evidence, turned) + launched_ns
    if evidence.share(whole_ns) < limits["least_share"] or launched_ns < _LEAST_IN_GAPS * whole_ns:
        return
    counted_elsewhere = launched_ns if is_host_bound(evidence, own_ns) else 0
    half, one_each = _fused(evidence, events)
    captured = _captured(evidence, tiny.get_column("at"))
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
        least=captured or half,
        most=one_each,
        not_told="" if captured or half else "no two of them follow each other",
    )


def _lost_lead(events: pl.DataFrame) -> int:
    """By how much more the host took to launch short kernels, each until its next launch, than the device to run them:
    so much of its lead they cost, if it had one."""
    launches = events.drop_nulls("launch_ts_ns").sort("launch_ts_ns", "at")
    until_next = (pl.col("launch_ts_ns").shift(-1) - pl.col("launch_ts_ns")).over("launch_pid", "launch_tid")
    lost = (until_next - pl.col("end_ns") + pl.col("start_ns")).clip(0, _MOST_OF_LAUNCH_NS)
    return int(launches.select(lost.filter(pl.col("tiny")).sum()).item())


def _captured(evidence: Evidence, tiny: pl.Series) -> tuple[Change, ...]:
    """The operators that launch short kernels alone take no time on the host, as in a graph; none where there are
    none."""
    kernels = evidence.kernels.with_columns(pl.col("at").is_in(tiny.implode()).alias("tiny")).drop_nulls("operator")
    names = evidence.trace.events.get_column("name").cast(pl.String).gather(kernels.get_column("operator"))
    shares = kernels.with_columns(names.alias("operator")).group_by("operator").agg(pl.col("tiny").mean())
    alone = shares.filter(pl.col("tiny") >= _MOSTLY).get_column("operator").to_list()
    return (Scale(selector="host:" + pattern_of(alone), factor=0),) if alone else ()


def _fused(evidence: Evidence, events: pl.DataFrame) -> tuple[tuple[Change, ...], tuple[Change, ...]]:
    """Of each chain of short kernels that follow one another on a stream half are left out, and all but the longest."""
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
        (op_times(f"half as many short kernels{whose}", evidence.work, half, 0, frees_launches=True),),
        (op_times(f"one kernel for each chain of short ones{whose}", evidence.work, gone, 0, frees_launches=True),),
    )
