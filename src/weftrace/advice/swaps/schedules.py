"""Another pipeline schedule for a measured run: its chunks, timed from the phases, in another order, simulated.

What is compared is simulated both times: the measured order with the measured means, whose error against the
measurement is told, and the other order with the same means.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import polars as pl
from msgspec import Meta

from weftrace.advice.jobs import infer_job, source_of
from weftrace.advice.swaps.chunks import pipeline_actions
from weftrace.errors import AdviceError, ScheduleError
from weftrace.files.schemas import Count, Positive
from weftrace.notebook import InNotebook
from weftrace.plan.inference.values import Inferred
from weftrace.trace.job import Job
from weftrace.trace.model import Trace
from weftrace.units import duration, signed

if TYPE_CHECKING:  # imported where a schedule is asked for: all else here works without that wing
    from weftrace.pipeline.costs import Costs
    from weftrace.pipeline.measured.runs import MeasuredRun
    from weftrace.pipeline.schedule import Schedule


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ScheduleSwap(InNotebook):
    """What a measured pipeline would take in another order. Makespans go from the first chunk's start to the last's
    end, over all ranks."""

    source: Annotated[str, Meta(description="The traces.")]
    device_name: str
    ranks: list[int]
    schedule: Annotated[str, Meta(description="The one that was tried.")]
    measured_schedule: Annotated[
        str, Meta(description='The one that was measured; "as measured" if no published order is the same.')
    ]
    step: Annotated[Count, Meta(description="Which of the recorded steps.")]
    num_ranks: Positive
    num_stages: Annotated[Positive, Meta(description="Of the measured schedule.")]
    num_micro_batches: Positive
    measured_ns: Count
    simulated_ns: Annotated[Count, Meta(description="The measured order, simulated with the means of its chunks.")]
    after_ns: Annotated[Count, Meta(description="The other order, simulated with the same.")]
    notes: Annotated[tuple[str, ...], Meta(description="What was assumed.")] = ()

    @property
    def error(self) -> Annotated[float, Meta(description="simulated_ns / measured_ns - 1.")]:
        """simulated_ns over measured_ns, less 1: how far the simulation is off where the answer is known."""
        return self.simulated_ns / self.measured_ns - 1 if self.measured_ns else 0.0

    @property
    def change(self) -> Annotated[float, Meta(description="after_ns / simulated_ns - 1.")]:
        """after_ns over simulated_ns, less 1."""
        return self.after_ns / self.simulated_ns - 1 if self.simulated_ns else 0.0

    @property
    def headline(self) -> Annotated[str, Meta(description="The answer, with the simulation's error.")]:
        """The answer, with the simulation's error."""
        return self.sentence

    @property
    def sentence(self) -> str:
        """The answer, with the simulation's error."""
        return (
            f"{self.schedule} instead of {self.measured_schedule}: {duration(self.after_ns, 4)} instead of "
            f"{duration(self.simulated_ns, 4)} ({signed(self.change)}), both simulated; the simulation of the "
            f"measured schedule is {signed(self.error)} off the measured {duration(self.measured_ns, 4)}."
        )

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "what if", self.sentence
        yield from (("note", note) for note in self.notes)


def measured_pipeline(source: Trace | Job, *, workers: int | None = None) -> Inferred | MeasuredRun:
    """What `swap_schedule` takes, of the traces of a pipeline's ranks: their plan; or, of a run without a device whose
    ranges name its actions, the run as they tell it. workers: see `Job.map`. Raises `TraceError` as either does."""
    from weftrace.pipeline.measured.runs import has_actions, run_of
    from weftrace.pipeline.measured.told_schedules import need_all_ranks, with_told_schedule

    first = source if isinstance(source, Trace) else next(iter(source.traces()))
    if not first.device_ids and has_actions(first):
        run = run_of(source, workers=workers)
        need_all_ranks(run)
        return with_told_schedule(run)[0]
    return infer_job(source, workers=workers)


def swap_schedule(measured: Inferred | MeasuredRun, name: str, *, weight_share: float | None = None) -> ScheduleSwap:
    """What schedule `name` ("dualpipe", "1f1b", "zb1p") would take on the ranks of a measured pipeline.

    measured: the ranks joined, or the run that their ranges tell of. Costs of a chunk are the means over its stage's
    chunks in the last whole step; a schedule that cuts the model into other stages takes all stages as alike.
    weight_share: part of a full backward that is W, where the run has B alone: an assumption, noted as one.

    Raises `AdviceError` where the phases are not those of a pipeline, or some are missing, and where there is no such
    schedule or it cannot have these sizes; `TraceError` where the schedule splits backwards, the run has B alone and
    no weight_share is given.
    """
    from weftrace.pipeline.generators.families import family_of, generate
    from weftrace.pipeline.measured.one_clock import on_one_clock
    from weftrace.pipeline.measured.run_costs import costs_of_run
    from weftrace.pipeline.measured.sourced_costs import with_weight_share
    from weftrace.pipeline.simulation import simulate

    run = _last_step(measured)
    own = _schedule_of(run)
    run, clocks = on_one_clock(run, own)
    try:
        costs = costs_of_run(run, own)
        family = family_of(name)
        other = generate(family.name, num_ranks=own.num_ranks, num_micro_batches=own.num_micro_batches)
        shared: tuple[str, ...] = ()
        if other.actions.get_column("kind").is_in(("I", "W")).any():
            costs, shared = with_weight_share(costs, run, weight_share)
        fitted, notes = _fitted(costs, own, other)
        simulated_ns, after_ns = (simulate(*each).makespan_ns for each in ((own, costs), (other, fitted)))
    except ScheduleError as error:
        raise AdviceError(f"schedule {name!r}: {error}") from error
    of, device, ranks, left_out = _origin(measured)
    return ScheduleSwap(
        source=of,
        device_name=device,
        ranks=ranks,
        schedule=family.title,
        measured_schedule=_name_of(own),
        step=run.steps[0],
        num_ranks=own.num_ranks,
        num_stages=own.num_stages,
        num_micro_batches=own.num_micro_batches,
        measured_ns=int(run.actions.select(pl.col("end_ns").max() - pl.col("start_ns").min()).item()),
        simulated_ns=simulated_ns,
        after_ns=after_ns,
        notes=(*_assumed(run, own, other), *shared, *notes, *filter(None, [clocks]), *left_out),
    )


def _origin(measured: Inferred | MeasuredRun) -> tuple[str, str, list[int], tuple[str, ...]]:
    """Its source, device, ranks and notes."""
    if isinstance(measured, Inferred):
        ranks = [int(rank) for rank in measured.plan.ranks]
        return source_of(measured), measured.plan.device_name, ranks, measured.notes
    return measured.source, "no device", list(range(measured.num_ranks)), ()


def _last_step(measured: Inferred | MeasuredRun) -> MeasuredRun:
    """The last of the steps that hold as many chunks as most do: the first and last of a recording are often cut."""
    from weftrace.pipeline.measured.runs import MeasuredRun

    if isinstance(measured, Inferred):
        actions = pipeline_actions(measured)
        measured = MeasuredRun(actions=actions, basis="device", has_waits=True, source="the measured run")
    counts = measured.actions.group_by("step").agg(pl.len().alias("number")).sort("step")
    usual = counts.get_column("number").mode().max()
    step = counts.filter(number=usual).get_column("step")[-1]
    ranks = pl.col("rank").rank("dense") - 1  # of one pipeline, whatever ranks of the job these are
    actions = measured.actions.with_columns(ranks.cast(pl.Int32).alias("rank")).filter(step=step)
    return replace(measured, actions=actions)


def _schedule_of(run: MeasuredRun) -> Schedule:
    """The order that was measured. Raises `AdviceError` where it is no schedule that can run."""
    from weftrace.pipeline.rules import check
    from weftrace.pipeline.schedule import ACTION_SCHEMA, Schedule

    actions = run.actions.select(*ACTION_SCHEMA)
    holds = actions.group_by("stage").agg(pl.col("rank").unique().sort()).sort("stage").get_column("rank").to_list()
    num_replicas = max(len(ranks) for ranks in holds)
    replicas = tuple(tuple(ranks[min(at, len(ranks) - 1)] for ranks in holds) for at in range(num_replicas))
    if num_replicas == 2:  # in two directions: where one has its first stage, the other has its last
        replicas = (tuple(ranks[0 if 2 * at < len(holds) else -1] for at, ranks in enumerate(holds)),
                    tuple(ranks[-1 if 2 * at < len(holds) else 0] for at, ranks in enumerate(holds)))  # fmt: skip
    batches = int(actions.select(pl.max_horizontal(pl.max("micro_batch"), pl.max("back_micro_batch"))).item()) + 1
    try:
        schedule = Schedule(name="as measured", rank_of=replicas, num_micro_batches=batches, actions=actions)
        check(schedule)
    except ScheduleError as error:
        raise AdviceError(
            f"the measured chunks are no whole step of one pipeline: {error} Of several pipelines, choose the ranks of "
            "one (--ranks)."
        ) from error
    return schedule


def _name_of(own: Schedule) -> str:
    """The title of the published order that was measured, or "as measured"."""
    from weftrace.pipeline.generators.families import FAMILIES, generate

    for family in FAMILIES.values():
        try:
            same = generate(family.name, num_ranks=own.num_ranks, num_micro_batches=own.num_micro_batches)
        except ScheduleError:
            continue
        if same.actions.drop("offload").equals(own.actions.drop("offload")):
            return family.title
    return own.name


def _fitted(costs: Costs, own: Schedule, other: Schedule) -> tuple[Costs, tuple[str, ...]]:
    """Costs for the stages of the other schedule."""
    from weftrace.pipeline.measured.sourced_costs import SourcedCosts, for_devices

    if other.num_stages == own.num_stages:
        return costs, ()
    summary = for_devices(SourcedCosts(costs=costs, basis="actions"), other.num_ranks)
    fitted = summary.costs.split(other.num_stages * other.num_replicas // (other.num_ranks * other.num_replicas))
    return (fitted.sliced(other.num_slices) if other.num_slices > 1 else fitted), summary.notes


def _assumed(run: MeasuredRun, own: Schedule, other: Schedule) -> Iterator[str]:
    done, wanted = (set(frame.get_column("kind").cast(pl.String)) for frame in (run.actions, other.actions))
    of = "from first start to last end of its work" if run.basis == "device" else "as long as its range on the host"
    yield f"a chunk takes the mean of its stage's chunks of that kind, {of}"
    if "F&B" in wanted - done:
        yield "nothing overlapped was measured: an F&B is taken to take as long as F and B one after the other"
    if (copies := other.num_replicas) > own.num_replicas:
        yield (
            f"each stage is on {copies} ranks then: that takes memory for {copies} times the weights, and the sum of "
            "the copies' gradients at a step's end is not counted"
        )
