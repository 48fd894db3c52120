"""From the costs of a chunk and the shape of a run to its step, with a published step of that shape beside it."""

from __future__ import annotations

from dataclasses import dataclass

from weftrace.facts import hardware, model_config
from weftrace.notebook import InNotebook
from weftrace.pipeline.generators.families import family_of, generate
from weftrace.pipeline.measured.sourced_costs import SourcedCosts, for_devices
from weftrace.pipeline.simulation import simulate
from weftrace.pipeline.steps.bubble_slip import bubble_slip
from weftrace.pipeline.steps.document import StepReport, step_report
from weftrace.pipeline.steps.published import PublishedStep, published_step
from weftrace.pipeline.steps.token_flops import flops_per_token
from weftrace.pipeline.steps.whole_step import whole_step


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(InNotebook):
    """The shape of a run.

    schedule: a name of `FAMILIES`. num_stages, num_micro_batches: of one pipeline. num_ranks: of all together.
    optimizer_ns: after the pipeline. model, hardware, dtype: names of `weftrace.facts`; None where not given.
    sequence: tokens of a sequence. tokens_per_micro_batch: None for one sequence.
    """

    schedule: str
    num_stages: int
    num_micro_batches: int
    num_ranks: int
    optimizer_ns: int = 0
    model: str | None = None
    hardware: str | None = None
    dtype: str = "bf16"
    sequence: int = 4096
    tokens_per_micro_batch: int | None = None


def predicted_step(costs: SourcedCosts, run: Run) -> StepReport:
    """The step of a run, from the costs of one of its stages.

    Where a step of the very same shape and tokens was published, its model and hardware stand in for those that are not
    given, and that is said; it is not set beside a step of another model or hardware. Raises `ScheduleError` where
    there is no such schedule, and `WeftraceError` for an unknown model, accelerator or dtype.
    """
    family = family_of(run.schedule)
    schedule = generate(run.schedule, num_stages=run.num_stages, num_micro_batches=run.num_micro_batches)
    tokens = run.tokens_per_micro_batch or run.sequence
    published = published_step(
        family.name, run.num_stages, run.num_micro_batches, run.num_ranks, model=run.model, hardware=run.hardware,
        tokens=tokens, sequence=run.sequence,
    )  # fmt: skip
    model, device, assumed = _named(run, published)
    costs = for_devices(costs, run.num_stages)
    of_chunk = costs.costs
    simulation = simulate(schedule, of_chunk.sliced(schedule.num_slices) if schedule.num_slices > 1 else of_chunk)
    config = None if model is None else model_config(model)
    flops = None if config is None else flops_per_token(config, run.sequence)
    chip = None if device is None else hardware(device)
    step = whole_step(
        simulation,
        num_ranks=run.num_ranks,
        tokens_per_micro_batch=tokens,
        optimizer_ns=run.optimizer_ns,
        flops=flops,
        peak_flops_per_s=None if chip is None else chip.peak(run.dtype),
    )
    if run.tokens_per_micro_batch is None:
        assumed.append(f"a micro-batch is one sequence of {tokens:,} tokens (--tokens, --sequence)")
    return step_report(
        step,
        simulation,
        costs,
        tokens_per_micro_batch=tokens,
        hardware=None if chip is None else f"{chip.name}, {run.dtype}",
        published=published,
        bubble=None if published is None else bubble_slip(schedule, published),
        assumptions=tuple(assumed),
        num_layers=None if config is None else config.num_layers,
    )


def _named(run: Run, published: PublishedStep | None) -> tuple[str | None, str | None, list[str]]:
    """Model and hardware, as given or as those of the published step; and what was so assumed."""
    if published is None:
        return run.model, run.hardware, []
    assumed = []
    if run.model is None:
        assumed.append(f"the model is {published.model}, as of the published step of this shape (--model)")
    if run.hardware is None:
        assumed.append(f"the GPUs are {published.hardware}, as of the published step of this shape (--hardware)")
    return run.model or published.model, run.hardware or published.hardware, assumed
