"""A critical path as JSON values, versioned (`weftrace.critical_path/1`): its parts and what they add up to.

Times are ns from the plan's 0, which is `origin_ns` on the trace's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, TypedDict, cast

import numpy as np
import polars as pl
from msgspec import Meta
from numpy.typing import NDArray

from weftrace.advice.critical_paths import NO_PHASE, CriticalPath, critical_path_of
from weftrace.advice.deciding_ranks import decided_steps, path_in_step
from weftrace.advice.told import KeptTold, ReplayTold, WaitsRow, headline_of, kept_told, replay_told, waits_told
from weftrace.advice.waterfalls import waterfall
from weftrace.files.schemas import Count, DocumentSchema
from weftrace.notebook import InNotebook
from weftrace.plan import Inferred
from weftrace.version import __version__

SCHEMA: Final = "weftrace.critical_path/1"


class PartRow(TypedDict):
    """What of the path has one name. The rows of a table add up to the path's span."""

    name: str
    time_ns: int
    share: Annotated[float, Meta(description="Of the path's span.")]


class WeakestTold(TypedDict):
    """The wait on the path of which we are least sure."""

    name: Annotated[str, Meta(description="Of the op that waited.")]
    on_name: Annotated[str, Meta(description="Of the op that it waited for.")]
    source: str
    votes_for: int | None
    votes_against: int | None
    confidence: float


class BarRow(TypedDict):
    """A bar of the waterfall. All bars add up to the measured span."""

    name: Annotated[str, Meta(description="A class on the critical path, or the replay's error.")]
    time_ns: int
    share: Annotated[float, Meta(description="Of the measured span.")]
    alone_ns: Annotated[int | None, Meta(description="What the span would lose with none of it, all else as it is.")]


class SlackRow(TypedDict):
    """The ops of one phase, or outside phases, and how near they are to the path."""

    phase: str
    num_ops: Count
    on_path: Annotated[Count, Meta(description="Without slack: later by a ns, and the span is longer by one.")]
    least_ns: Annotated[int, Meta(description="The least slack of them.")]
    median_ns: int


class StepRow(TypedDict):
    """A step, and what decided how long it took."""

    step: Annotated[int | None, Meta(description="Null outside steps.")]
    path_ns: Annotated[int, Meta(description="Of the path in the step; all rows add up to its span.")]
    rank: Annotated[int, Meta(description="On which most of that is.")]
    rank_ns: int
    what: Annotated[str, Meta(description="Of that rank's part the phase, or kernel family, with the most time.")]
    time_ns: int


class CriticalPathDocument(TypedDict):
    """What decided how long a measured run took."""

    schema: str
    weftrace: Annotated[str, Meta(description="The version that wrote it.")]
    source: Annotated[str, Meta(description="The trace, or the job.")]
    device_name: str
    ranks: list[int]
    num_ops: Annotated[Count, Meta(description="Of the inferred plan: on devices and on host threads.")]
    step: Annotated[int | None, Meta(description="Of which alone the path is told; null for all of it.")]
    origin_ns: Annotated[int, Meta(description="The plan's 0 on the trace's clock.")]
    headline: str
    replay: ReplayTold
    kept: KeptTold
    waits: Annotated[list[WaitsRow], Meta(description="Those of the plan, by where they come from.")]
    span_ns: Annotated[
        Count, Meta(description="Of the path: the replayed span of the devices; of a step, the path's time in it.")
    ]
    before_ns: Annotated[Count, Meta(description="Of the chain before the first start on a device; in no sum.")]
    by_class: list[PartRow]
    by_phase: list[PartRow]
    by_family: list[PartRow]
    by_kernel: list[PartRow]
    by_cause: Annotated[list[PartRow], Meta(description="By how an op came to run when it did.")]
    by_rank: list[PartRow]
    steps: list[StepRow]
    weakest: WeakestTold | None
    waterfall: list[BarRow]
    slack: list[SlackRow]
    parts: Annotated[
        dict[str, list[Any]],
        Meta(
            description="The path as columns, a row a part: parts lie end to end from the first start to the last end."
        ),
    ]
    notes: list[str]


PATH_SCHEMA = DocumentSchema(
    document=CriticalPathDocument,
    schema=SCHEMA,
    title="What decided how long a measured run took",
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CriticalPathReport(InNotebook):
    """A critical path as its document: what is shown and saved. path, inferred: what it was made of, from which a page
    and the overlay are drawn; None for one that was read from a file."""

    document: CriticalPathDocument
    path: CriticalPath | None = None
    inferred: Inferred | None = None

    def _told(self) -> list[tuple[str, str]]:
        return [("headline", self.document["headline"])]


def critical_path_report(inferred: Inferred, *, step: int | None = None) -> CriticalPathReport:
    """A critical path as a value that can be shown and saved. step: only what of it is in that profiler step.

    Raises `AdviceError` where nothing ran on a device, `TraceError` where the path crosses no such step.
    """
    path = critical_path_of(inferred)
    path = path if step is None else path_in_step(path, step)
    return CriticalPathReport(document=critical_path_document(path, inferred, step), path=path, inferred=inferred)


def critical_path_document(path: CriticalPath, inferred: Inferred, step: int | None = None) -> CriticalPathDocument:
    """As JSON-able values. inferred: what the path is of; step: in which alone it is."""
    sentence = path.sentence if step is None else f"In step {step}, {path.sentence[0].lower()}{path.sentence[1:]}"
    return {
        "schema": SCHEMA,
        "weftrace": __version__,
        "source": source_of(inferred),
        "device_name": inferred.plan.device_name,
        "ranks": [int(rank) for rank in inferred.plan.ranks],
        "num_ops": len(inferred.plan),
        "step": step,
        "origin_ns": inferred.origin_ns,
        "headline": headline_of(sentence, inferred.replay),
        "replay": replay_told(inferred.replay),
        "kept": kept_told(inferred),
        "waits": waits_told(inferred),
        "span_ns": path.span_ns,
        "before_ns": path.before_ns,
        "by_class": part_rows(path.by_class),
        "by_phase": part_rows(path.by_phase),
        "by_family": part_rows(path.by_family),
        "by_kernel": part_rows(path.by_kernel),
        "by_cause": part_rows(path.by_cause),
        "by_rank": part_rows(path.by_rank),
        "steps": cast(list[StepRow], decided_steps(path).to_dicts()),
        "weakest": weakest_told(path),
        "waterfall": [] if step is not None else cast(list[BarRow], waterfall(inferred).bars.to_dicts()),
        "slack": _slack(path, inferred),
        "parts": path.parts.with_columns(pl.col("class_").cast(pl.String))
        .rename({"class_": "class"})
        .to_dict(as_series=False),
        "notes": list(inferred.notes),
    }


def parts_table(document: CriticalPathDocument) -> pl.DataFrame:
    """The parts of the path, a row each."""
    return pl.DataFrame(document["parts"], infer_schema_length=None)


def source_of(inferred: Inferred) -> str:
    """The trace's file, or the first of a job's and how many there are. A process may drive several devices."""
    traces = {id(work.trace): work.trace.path or "trace" for work in inferred.works}
    paths = list(traces.values())
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1:,} more"


def part_rows(frame: pl.DataFrame) -> list[PartRow]:
    """A frame of `CriticalPath.by_...` as rows."""
    return cast(list[PartRow], frame.to_dicts())


def weakest_told(path: CriticalPath) -> WeakestTold | None:
    """The path's weakest wait, None where all are sure."""
    edge = path.weakest
    if edge is None:
        return None
    return {
        "name": edge.name,
        "on_name": edge.on_name,
        "source": edge.source,
        "votes_for": edge.votes_for,
        "votes_against": edge.votes_against,
        "confidence": edge.confidence,
    }


def _slack(path: CriticalPath, inferred: Inferred) -> list[SlackRow]:
    """Of device work by phase, the least slack first."""
    slack: NDArray[np.int64] = path.slack_ns
    ops = inferred.plan.ops.select(pl.col("phase").cast(pl.String).fill_null(NO_PHASE))
    on_device = inferred.measured.get_column("event").is_not_null()
    rows = (
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
    return cast(list[SlackRow], rows.to_dicts())
