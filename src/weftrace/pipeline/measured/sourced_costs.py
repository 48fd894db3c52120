"""Costs of a chunk together with their source: what commands take, wherever the numbers are from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from weftrace.errors import TraceError
from weftrace.files.schemas import Count
from weftrace.files.values import filled
from weftrace.notebook import InNotebook
from weftrace.pipeline.costs import Costs
from weftrace.pipeline.costs_document import read_costs
from weftrace.pipeline.measured.absent_ranks import MOST_NAMED
from weftrace.pipeline.measured.phase_costs import costs_of_phases
from weftrace.pipeline.measured.plain_runs import measured_runs
from weftrace.pipeline.measured.run_costs import costs_of_actions, latency_of_run, tells_weight, with_share_of_weight
from weftrace.pipeline.measured.runs import MeasuredRun, chosen_replica, has_actions
from weftrace.pipeline.measured.steady_steps import steady_steps
from weftrace.pipeline.measured.told_schedules import with_told_schedule
from weftrace.pipeline.schedule import Schedule
from weftrace.trace.job import Job
from weftrace.trace.model import Trace
from weftrace.trace.work import work_of
from weftrace.units import counted, duration, listed

#: Where costs are from: a trace's phases, the actions of a measured run, FLOPs and hardware, a file of numbers.
Basis = Literal["phases", "actions", "flops", "given"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedCosts(InNotebook):
    """costs: of a chunk. basis: how they were come by. is_upper_bound: whether F, I and W are serial upper bounds.
    num_layers: that the chunk holds, as a trace's phases tell; None where nothing does. estimated: stages that have no
    trace, with the means of the others. source: the file. notes: what was assumed, and what was left out."""

    costs: Costs
    basis: Basis
    is_upper_bound: bool = False
    num_layers: int | None = None
    estimated: tuple[int, ...] = ()
    source: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CostsSummary:
    """What one chunk costs, the mean over stages where they differ."""

    forward_ns: Count
    input_ns: Count
    weight_ns: Count
    overlapped_ns: Annotated[Count | None, Meta(description="F&B; null: F + B, no gain.")]
    latency_ns: Count
    basis: Annotated[
        Basis, Meta(description="A trace's phases, a run's actions, FLOPs and hardware, or given numbers.")
    ]
    is_upper_bound: Annotated[
        bool, Meta(description="F, I and W are sums of phases that ran beside others: serial upper bounds.")
    ]
    source: str
    notes: Annotated[tuple[str, ...], Meta(description="What was assumed or left out, in sentences.")]


def costs_of_trace(
    source: Trace | Job, *, chunks: int | None = None, weight_share: float | None = None, step: int | None = None
) -> SourcedCosts:
    """Costs from a trace: of a pipeline that weftrace ran, or of a timeline, by its actions; else by phases, see
    `costs_of_phases`.

    weight_share: part of a full backward that is W, where the trace tells B alone: an assumption, noted as one.
    Raises `TraceError` where neither tells F, I and W.
    """
    first = source if isinstance(source, Trace) else next(iter(source.traces()))
    if has_actions(first) or first.plain is not None or not (first.device_ids or isinstance(source, Trace)):
        runs = [steady_steps(run) for run in measured_runs(source)]
        run, schedule = with_told_schedule(chosen_replica(runs, "all"))
        num_stages = None if run.absent is None else run.absent.num_stages
        costs, assumed = with_weight_share(costs_of_actions(run, num_stages), run, weight_share)
        seen = set(run.actions.get_column("stage").to_list())
        is_doubtful = run.is_partial or (run.absent is not None and run.numbers == "order" and schedule is None)
        if is_doubtful and num_stages is None:
            costs = _alike(costs, len(seen) / run.num_ranks)
            note = "how many stages the pipeline has is unknown: the mean of these ranks is taken as each device's"
            assumed = (*assumed, note)
        num_steps = max(1, len(run.steps) // len(runs))
        ranks = counted(run.num_ranks, "rank")
        costs, passed = _with_latency_of(costs, [with_told_schedule(each) for each in runs])
        return SourcedCosts(
            costs=costs, basis="actions", source=run.source,
            estimated=tuple(stage for stage in range(_num_stages(costs) or 0) if stage not in seen),
            notes=(
                f"medians over the actions of {ranks} in {counted(num_steps, 'step')}; {passed}",
                *run.notes,
                *assumed,
            ),
        )  # fmt: skip
    if not isinstance(source, Trace):
        raise TraceError(
            f"{source.source}: {len(source)} traces without ranges that name actions of a pipeline; give the trace "
            "of one rank, with phases of F, I and W."
        )
    measured = costs_of_phases(work_of(source, step=step), chunks=chunks, weight_share=weight_share)
    return SourcedCosts(
        costs=measured.costs(), basis="phases", is_upper_bound=measured.overlapped_ns is not None,
        num_layers=measured.num_layers, source=measured.source, notes=measured.notes,
    )  # fmt: skip


def _with_latency_of(costs: Costs, replicas: Sequence[tuple[MeasuredRun, Schedule | None]]) -> tuple[Costs, str]:
    """Costs with the measured time of messages, where waits for them and the schedule are known, and that in words."""
    known = [latency_of_run(run, schedule) for run, schedule in replicas if schedule is not None and run.has_waits]
    if not known:
        return costs, "what passes between ranks is not in them"
    costs = replace(costs, latency_ns=round(float(np.median(known))))
    return costs, f"messages came {duration(costs.latency_ns)} after the end of their senders, the median"


def with_weight_share(costs: Costs, run: MeasuredRun, weight_share: float | None) -> tuple[Costs, tuple[str, ...]]:
    """Costs whose I and W are parts of B where the run has B alone, and the assumption. Raises `TraceError` where that
    share is needed and is not given, or is none."""
    if tells_weight(run):
        return costs, ()
    if weight_share is None or not 0 <= weight_share <= 1:
        given = "" if weight_share is None else f", not {weight_share}"
        raise TraceError(
            f"{run.source}: its backwards are B, the full backward, and the share of W in it is unknown; give the "
            f"share, from 0 to 1{given} (--weight-share): 0.5 is a guess."
        )
    note = f"assumed: W is {weight_share:g} of a full backward, because no action separates it"
    return with_share_of_weight(costs, weight_share), (note,)


def costs_of_file(path: str | os.PathLike[str]) -> SourcedCosts:
    """Costs from a JSON file, as `read_costs` reads it."""
    return SourcedCosts(costs=read_costs(path), basis="given", source=os.fspath(path))


def costs_summary(sourced: SourcedCosts) -> CostsSummary:
    """What is shown and saved of costs and their source."""
    costs = sourced.costs
    return filled(
        CostsSummary,
        sourced,
        forward_ns=mean_ns(costs.forward_ns),
        input_ns=mean_ns(costs.input_ns),
        weight_ns=mean_ns(costs.weight_ns),
        overlapped_ns=None if costs.overlapped_ns is None else mean_ns(costs.overlapped_ns),
        latency_ns=costs.latency_ns,
        notes=(*sourced.notes, *_by_stage(sourced)),
    )


def _by_stage(sourced: SourcedCosts) -> list[str]:
    """That the numbers are means, where stages differ; and which stages have them for want of their own."""
    stages, unseen = _num_stages(sourced.costs), sourced.estimated
    if stages is None:
        return []
    means = f"the means of {counted(stages - len(unseen), 'stage')}; each stage is simulated with its own costs"
    if not unseen:
        return [means]
    which = f"stage{'s' if len(unseen) > 1 else ''} {listed(unseen, most=MOST_NAMED)}"
    return [f"{means}, but {which}, without a trace, with these means: an estimate"]


def _num_stages(costs: Costs) -> int | None:
    """Of how many stages there are times; None where they are the same for all."""
    return next((len(v) for v in (costs.forward_ns, costs.input_ns, costs.weight_ns) if isinstance(v, tuple)), None)


def mean_ns(value: int | tuple[int, ...] | tuple[tuple[int, ...], ...]) -> int:
    """The mean over stages, or over pairs of stages."""
    return round(float(np.mean(value)))


def with_latency(sourced: SourcedCosts, latency_ns: int) -> SourcedCosts:
    """The same, with messages that need so long on their way."""
    return replace(sourced, costs=replace(sourced.costs, latency_ns=latency_ns))


def layers_of(sourced: SourcedCosts, num_devices: int) -> int | None:
    """Layers of a model of which a device's share is this chunk; None where that is not known. A trace of a single
    layer is taken as a sample, and not as a model of as many layers as devices."""
    layers = sourced.num_layers
    return None if layers is None or layers < 2 else layers * num_devices


def for_devices(sourced: SourcedCosts, num_devices: int) -> SourcedCosts:
    """Costs of another number of stages as those of one device's share of the model: the mean stage, as often as there
    are stages for each device. Costs that are the same for all stages are of such a share already."""
    costs = sourced.costs
    stages = _num_stages(costs)
    if stages is None or stages == num_devices:
        return sourced

    unseen = f" ({len(sourced.estimated)} without a trace: an estimate)" if sourced.estimated else ""
    note = f"stages taken as alike: the mean of {stages}{unseen}, as the share of {counted(num_devices, 'device')}"
    return replace(sourced, costs=_alike(costs, stages / num_devices), estimated=(), notes=(*sourced.notes, note))


def _alike(costs: Costs, factor: float) -> Costs:
    """The same costs for all stages: the means, times a factor."""

    def share(name: str) -> int | None:
        value = getattr(costs, name)
        return None if value is None else round(float(np.mean(value)) * factor)

    names = ("forward_ns", "input_ns", "weight_ns", "backward_ns", "overlapped_ns", "activation_bytes", "pending_bytes",
             "weight_bytes")  # fmt: skip
    changed: dict[str, Any] = {name: share(name) for name in names}
    if costs.activation_bytes == 1:
        changed["activation_bytes"] = 1  # counts chunks
    changed["message_bytes"] = mean_ns(costs.message_bytes)
    return replace(costs, **changed, rank_factor=1.0)
