"""A slip as JSON values, versioned (`weftrace.pipeline.slip/1`): planned and measured, and the difference by cause."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import polars as pl
from msgspec import Meta

from weftrace.files.schemas import Count, Positive
from weftrace.files.values import AS_COLUMNS, OPTIONAL, UNSAVED, filled
from weftrace.notebook import InNotebook
from weftrace.pipeline.plan_vs_measured.forecasts import StepForecast
from weftrace.pipeline.plan_vs_measured.lateness import Reason
from weftrace.pipeline.plan_vs_measured.outliers import Outlier
from weftrace.pipeline.plan_vs_measured.planned_and_measured import RankRow, Slip
from weftrace.pipeline.schedule import Action
from weftrace.units import duration, percent, signed

SCHEMA: Final = "weftrace.pipeline.slip/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Causes:
    """measured - planned = own + p2p + between - slack, exactly: along the critical path of the measured step."""

    own_ns: Annotated[int, Meta(description="Actions took longer than planned.")]
    p2p_ns: Annotated[int, Meta(description="Messages took longer than planned.")]
    between_ns: Annotated[int, Meta(description="A rank did neither an action nor wait for a message.")]
    slack_ns: Annotated[int, Meta(description="Time that the plan had to spare on this path, used up.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRow:
    """The actions of one kind, stage and rank: means over micro-batches."""

    rank: Count
    kind: str
    stage: Count
    back_stage: Annotated[int | None, Meta(description="Of an F&B: the backward's.")]
    count: Count
    planned_ns: Count
    measured_ns: Count
    longest_ns: Annotated[Count, Meta(description="The longest of them, measured.")]
    late_ns: Annotated[int, Meta(description="How much later than planned they started.")]
    usual_ns: Annotated[
        int | None, OPTIONAL, Meta(description="The median of them, measured; null in documents that had none.")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PathStep:
    """One action on the critical path, with what it added to the slip."""

    rank: Count
    action: Annotated[str, Meta(description="As a schedule writes it: 3F5, 0F4&7B1.")]
    reason: Annotated[Reason, Meta(description="What it waited for: the action before on its rank, or another rank's.")]
    late_ns: int
    own_ns: int
    p2p_ns: int
    between_ns: int
    slack_ns: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlipReport(InNotebook):
    """What is shown and saved of a slip. found: what it was made of, which a page draws; None for one that was read
    from a file."""

    schedule: str
    source: Annotated[str, Meta(description="The traces.")]
    num_ranks: Positive
    step: Annotated[Count, Meta(description="Which recorded step, from 0.")]
    num_steps: Positive
    basis: Annotated[Literal["host", "device"], Meta(description="Which clock times the actions.")]
    costs_from: Annotated[
        Literal["plan", "run"], Meta(description="Whether the planned times rest on the plan's costs, or on the run's.")
    ]
    boundary: Annotated[Literal["barrier"], Meta(description="How a step ends: for all ranks with the last one.")]
    planned_ns: Count
    measured_ns: Count
    error: Annotated[float, Meta(description="(planned - measured) / measured.")]
    causes: Causes
    ranks: tuple[RankRow, ...]
    ops: tuple[ActionRow, ...]
    path: Annotated[tuple[PathStep, ...], Meta(description="The critical path of the measured step, first to last.")]
    actions: Annotated[
        pl.DataFrame,
        AS_COLUMNS,
        Meta(description="Every action with the causes of its lateness, as columns."),
    ]
    headline: str
    notes: tuple[str, ...]
    outliers: Annotated[
        tuple[Outlier, ...], OPTIONAL, Meta(description="Actions that took much longer than their peers.")
    ] = ()
    steps: Annotated[
        tuple[StepForecast, ...], OPTIONAL, Meta(description="All recorded steps, each forecast from the others.")
    ] = ()
    found: Annotated[Slip | None, UNSAVED] = None


def slip_report(found: Slip) -> SlipReport:
    """A slip as a value that can be shown and saved."""
    return filled(
        SlipReport,
        found,
        found.run,
        schedule=found.schedule.name,
        num_ranks=found.schedule.num_ranks,
        boundary="barrier",
        causes=filled(Causes, found),
        ranks=tuple(RankRow(**row) for row in found.ranks.to_dicts()),
        ops=tuple(ActionRow(**row) for row in _ops(found.actions, found.costs_from).to_dicts()),
        path=tuple(_path(found)),
        actions=found.actions.with_columns(pl.col("kind", "reason").cast(pl.String)),
        headline=headline(found),
        found=found,
    )


def headline(found: Slip) -> str:
    """How long the step took, how far that is from the plan, and by what; whose bubble is the longest."""
    if found.costs_from == "plan":
        longer = found.measured_ns - found.planned_ns
        ratio = abs(longer) / found.planned_ns if found.planned_ns else 0.0
        first = (
            f"The step took {duration(found.measured_ns)}, {percent(ratio)} "
            f"{'longer' if longer >= 0 else 'less'} than planned ({duration(found.planned_ns)})"
        )
    else:
        first = (
            f"The step took {duration(found.measured_ns)}; from the medians of its own actions "
            f"{duration(found.planned_ns)} is predicted ({signed(found.error)})"
        )
    worst = found.ranks.sort("idle_ns", "rank", descending=[True, False]).row(0, named=True)
    share = percent(worst["idle_ns"] / found.measured_ns if found.measured_ns else 0)
    rare = "".join(f" {each.sentence}." for each in found.outliers[:1])
    return (
        f"{first}: {_causes(found)}.{rare} With a barrier at its end rank {worst['rank']} idles most, "
        f"{duration(worst['idle_ns'])} ({share})."
    )


def _causes(found: Slip) -> str:
    texts = [
        f"{name} took {duration(abs(value))} {'longer' if value > 0 else 'less'}"
        for name, value in (("actions", found.own_ns), ("messages", found.p2p_ns))
        if value
    ]
    if found.between_ns:
        texts.append(f"{duration(found.between_ns)} passed between actions")
    if found.slack_ns:
        texts.append(f"{duration(found.slack_ns)} of it was to spare in the plan")
    return ", ".join(texts) or "nothing differs"


def _ops(actions: pl.DataFrame, costs_from: str) -> pl.DataFrame:
    """A row a kind, stage and rank: what took most longer than planned first. Where the plan is of their medians, that
    whose longest is furthest beyond its median."""
    planned, measured = (pl.col(f"{p}end_ns") - pl.col(f"{p}start_ns") for p in ("planned_", ""))
    beyond = pl.col("own_ns").sum() if costs_from == "plan" else measured.max() - measured.median()
    rows = actions.group_by("rank", "kind", "stage", "back_stage", maintain_order=True).agg(
        pl.len().alias("count"),
        planned.mean().round().cast(pl.Int64).alias("planned_ns"),
        measured.mean().round().cast(pl.Int64).alias("measured_ns"),
        measured.max().alias("longest_ns"),
        pl.col("late_ns").mean().round().cast(pl.Int64),
        measured.median().round().cast(pl.Int64).alias("usual_ns"),
        beyond.alias("beyond"),
    )
    return rows.with_columns(pl.col("kind").cast(pl.String)).sort("beyond", descending=True).drop("beyond")


def _path(found: Slip) -> Iterator[PathStep]:
    rows = found.actions[list(found.path)].with_columns(pl.col("kind", "reason").cast(pl.String))
    action = ("rank", "kind", "stage", "micro_batch", "back_stage", "back_micro_batch", "offload")
    others = ("rank", "reason", "late_ns", "own_ns", "p2p_ns", "between_ns", "slack_ns")
    for row in rows.rows(named=True):
        yield PathStep(
            action=str(Action(**{name: row[name] for name in action})), **{name: row[name] for name in others}
        )
