"""A critical path as a value that is shown and saved (`weftrace.critical_path/1`), and what all documents of the wing
say of the plan that was inferred: how far its replay is off, what it keeps, what waits.

Times are ns from the plan's 0, which is `origin_ns` on the trace's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import numpy as np
import polars as pl
from msgspec import Meta
from numpy.typing import NDArray

from weftrace.advice.absent_ranks import absent_from
from weftrace.advice.contention import Contention, contention_of
from weftrace.advice.critical_paths import NO_PHASE, CriticalPath, WeakestEdge, critical_path_of
from weftrace.advice.deciding_ranks import StepRow, decided_steps, path_in_step
from weftrace.advice.idle_causes import why_idle
from weftrace.advice.jobs import source_of
from weftrace.advice.trust import Trust, headline_of, trust_of
from weftrace.advice.waterfalls import BarRow, waterfall
from weftrace.analysis.data_quality import merged_devices
from weftrace.files.schemas import Count
from weftrace.files.values import AS_COLUMNS, UNSAVED, filled
from weftrace.notebook import InNotebook
from weftrace.plan import Inferred, Kept, Replay
from weftrace.plan.inference.values import SOURCES, Source
from weftrace.units import of_whole

_TABLES = ("class", "phase", "family", "kernel", "cause", "rank")


class WaitsRow(TypedDict):
    """The waits that come from one source."""

    source: Source
    count: Count
    confidence: Annotated[float, Meta(description="The mean; a recorded wait counts as 1, a voted one less.")]
    votes_for: Annotated[int | None, Meta(description="Of all of them together; null if there was no vote.")]
    votes_against: int | None


class PartRow(TypedDict):
    """What of the path has one name. The rows of a table add up to the path's span."""

    name: str
    time_ns: int
    share: Annotated[float, Meta(description="Of the measured span; of a changed plan's, or a step's, path of that.")]


class SlackRow(TypedDict):
    """The ops of one phase, or outside phases, and how near they are to the path."""

    phase: str
    num_ops: Count
    on_path: Annotated[Count, Meta(description="Without slack: later by a ns, and the span is longer by one.")]
    least_ns: Annotated[int, Meta(description="The least slack of them.")]
    median_ns: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Advice(InNotebook):
    """What every document about an inferred plan says: the answer, and what it rests on."""

    source: Annotated[str, Meta(description="The trace, or the job.")]
    device_name: str
    ranks: list[int]
    headline: str
    trust: Trust
    replay: Replay
    kept: Kept
    contention: Contention
    waits: Annotated[list[WaitsRow], Meta(description="Those of the plan, by where they come from.")]
    notes: list[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CriticalPathReport(Advice):
    """What decided how long a measured run took.

    path, inferred: what it was made of, from which a page and the overlay are drawn; None of one read from a file.
    """

    num_ops: Annotated[Count, Meta(description="Of the inferred plan: on devices and on host threads.")]
    step: Annotated[int | None, Meta(description="The only step that the path is of; null for all of it.")]
    origin_ns: Annotated[int, Meta(description="The plan's 0 on the trace's clock.")]
    span_ns: Annotated[
        Count, Meta(description="Of the path: the replayed span of the devices; of a step, the path's time in it.")
    ]
    before_ns: Annotated[Count, Meta(description="Of the chain before the first start on a device; in no sum.")]
    absent_ns: Annotated[
        Count, Meta(description="On the path in communication that ranks which are not in the plan decide.")
    ]
    transfer_most_ns: Annotated[Count, Meta(description="Of that the most that can be transfer; the rest is waiting.")]
    by_class: list[PartRow]
    by_phase: list[PartRow]
    by_family: list[PartRow]
    by_kernel: list[PartRow]
    by_cause: Annotated[list[PartRow], Meta(description="By how an op came to run when it did.")]
    by_rank: list[PartRow]
    steps: list[StepRow]
    weakest: WeakestEdge | None
    waterfall: list[BarRow]
    slack: list[SlackRow]
    parts: Annotated[
        pl.DataFrame,
        AS_COLUMNS,
        Meta(
            description="The path as columns, a row a part: parts lie end to end from the first start to the last end."
        ),
    ]
    path: Annotated[CriticalPath | None, UNSAVED] = None
    inferred: Annotated[Inferred | None, UNSAVED] = None


def critical_path_report(inferred: Inferred, *, step: int | None = None) -> CriticalPathReport:
    """A critical path as a value that can be shown and saved. step: only what of it is in that profiler step.

    Raises `AdviceError` where nothing ran on a device, `TraceError` where the path crosses no such step.
    """
    path = critical_path_of(inferred)
    absent = _AbsentOnPath.of(path, inferred)
    sentence = f"{path.sentence}{absent.words}{why_idle(inferred, path)}"
    if step is not None:
        path = path_in_step(path, step)
        absent = _AbsentOnPath.of(path, inferred)
        sentence = f"In step {step}, {path.sentence[0].lower()}{path.sentence[1:]}{absent.words}"
    tables: dict[str, Any] = {f"by_{name}": getattr(path, f"by_{name}").to_dicts() for name in _TABLES}
    return filled(
        CriticalPathReport,
        path,
        inferred,
        **basis_of(inferred, sentence),
        **tables,
        num_ops=len(inferred.plan),
        absent_ns=absent.time_ns,
        transfer_most_ns=absent.transfer_most_ns,
        step=step,
        steps=rows_of(decided_steps(path)),
        waterfall=[] if step is not None else rows_of(waterfall(inferred).bars),
        slack=_slack(path, inferred),
        parts=path.parts.with_columns(pl.col("class_").cast(pl.String)).rename({"class_": "class"}),
        path=path,
        inferred=inferred,
    )


@dataclass(frozen=True, slots=True)
class _AbsentOnPath:
    """Communication on a path that absent ranks decide, and of it the most that can be transfer, ns."""

    time_ns: int
    transfer_most_ns: int

    @classmethod
    def of(cls, path: CriticalPath, inferred: Inferred) -> _AbsentOnPath:
        if inferred.kernels is not None:  # ops are stretches of phases
            return cls(0, 0)
        absent = absent_from(inferred)
        most = pl.DataFrame({"op": pl.Series(absent.ops, dtype=pl.UInt32), "most_ns": absent.transfer_most_ns})
        parts = path.parts.filter(pl.col("class_").is_in(("communication", "fused"))).join(most, on="op")
        time = (pl.col("until_ns") - pl.col("from_ns")).sum()
        by_op = parts.group_by("op").agg(time_ns=time, most_ns=pl.col("most_ns").first())
        least = by_op.select(pl.col("time_ns").sum(), pl.min_horizontal("time_ns", "most_ns").sum().alias("most_ns"))
        return cls(*(int(each) for each in least.row(0)))

    @property
    def words(self) -> str:
        """A sentence; none where nothing is known to be waiting."""
        if self.transfer_most_ns >= self.time_ns:
            return ""
        most = of_whole(self.transfer_most_ns, self.time_ns)
        return f" At most {most} in communication with absent ranks are transfer, the rest is waiting for them."


def basis_of(inferred: Inferred, sentence: str) -> dict[str, Any]:
    """The fields of `Advice` about a plan. sentence: the answer."""
    merged = list(filter(None, map(merged_devices, inferred.works)))
    trust = trust_of(inferred.replay, absent_from(inferred.kernels or inferred), merged)
    return {
        "source": source_of(inferred),
        "device_name": inferred.plan.device_name,
        "ranks": [int(rank) for rank in inferred.plan.ranks],
        "headline": headline_of(sentence, inferred.replay, trust),
        "trust": trust,
        "replay": inferred.replay,
        "kept": inferred.kept,
        "contention": contention_of(inferred),
        "waits": waits_by_source(inferred),
        "notes": list(inferred.notes),
    }


def waits_by_source(inferred: Inferred) -> list[WaitsRow]:
    """One row per source, in the order of `SOURCES`; those that nothing comes from are left out."""
    votes = ("votes_for", "votes_against")
    rows = inferred.edges.group_by(pl.col("source").cast(pl.String)).agg(
        pl.len().alias("count"),
        pl.col("confidence").mean(),
        *(pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name) for name in votes),
    )
    return rows_of(rows.drop_nulls("source").sort(pl.col("source").cast(pl.Enum(SOURCES))))


def rows_of(frame: pl.DataFrame) -> list[Any]:
    """A frame's rows as the document has them."""
    return frame.to_dicts()


def _slack(path: CriticalPath, inferred: Inferred) -> list[SlackRow]:
    """Of device work by phase, the least slack first."""
    slack: NDArray[np.int64] = path.slack_ns
    ops = inferred.plan.ops.select(pl.col("phase").cast(pl.String).fill_null(NO_PHASE))
    on_device = inferred.measured.get_column("event").is_not_null()
    return rows_of(
        ops.with_columns(slack_ns=pl.Series(slack))
        .filter(on_device)
        .group_by("phase", maintain_order=True)
        .agg(
            pl.len().alias("num_ops"),
            (pl.col("slack_ns") <= 0).sum().alias("on_path"),
            pl.col("slack_ns").min().alias("least_ns"),
            pl.col("slack_ns").median().round().cast(pl.Int64).alias("median_ns"),
        )
        .sort("least_ns", "median_ns", maintain_order=True)
    )
