"""`weftrace pipeline slip`: a measured step beside its plan, per op and rank, with causes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from weftrace.cli import options, outputs
from weftrace.cli.requests import command_of
from weftrace.files.schemas import Count
from weftrace.options import Option
from weftrace.pipeline.cli.options import schedule_from

EPILOG = """[bold]Examples[/bold]

weftrace pipeline show dualpipe --stages 4 --micro-batches 8 --costs costs.json -o plan.json

weftrace pipeline slip plan.json measured/

weftrace pipeline slip plan.json measured/ -o slip.html

weftrace pipeline slip plan.json measured/ --costs-from-run -o slip.json -o slip.csv

weftrace pipeline slip auto timeline.json.gz --step 23 --replica 1"""


AUTO = "auto"  # in place of a file with the schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A plan, and the traces of the run that it is held against."""

    plan: Annotated[
        str,
        Option(
            "The schedule that was run: the JSON of `weftrace pipeline show … -o plan.json`, or its "
            ".txt or .csv; or auto: the family that orders forwards and backwards as they ran.",
            is_argument=True, metavar="PLAN",
        ),
    ]  # fmt: skip
    measured: Annotated[
        tuple[str, ...],
        Option(
            "A folder with a trace of each rank, recorded with weftrace's pipeline runtime, torch's, Megatron-LM or "
            "DeepSpeed; or the traces; or a timeline of forwards and backwards with stage, micro-batch and step.",
            is_argument=True, metavar="TRACE...",
        ),
    ]  # fmt: skip
    step: Annotated[
        Count | None, Option("Which recorded pipeline step, from 0.", metavar="N", shows_default="the last")
    ] = None
    costs_from_run: Annotated[
        bool,
        Option(
            "Plan with the medians of the step itself: the difference is then what they leave out. So it is anyway "
            "for a plan without costs."
        ),
    ] = False
    replica: Annotated[
        int | None,
        Meta(ge=0),
        Option("Which data-parallel replica of a timeline, from 0.", metavar="N", shows_default="the slowest"),
    ] = None
    ranks: options.Ranks = None
    workers: options.Workers = None
    max_bytes: options.MaxBytes = options.DEFAULT_MAX_BYTES


def run(request: Request, to: outputs.Destination) -> None:
    """Planned against measured: makespans, their difference by cause, each rank's bubble, what took longer."""
    from weftrace.pipeline.measured.plain_runs import measured_run
    from weftrace.pipeline.measured.told_schedules import told_schedule
    from weftrace.pipeline.outputs import SLIP
    from weftrace.pipeline.plan_vs_measured.document import slip_report
    from weftrace.pipeline.plan_vs_measured.planned_and_measured import slip

    measured = list(request.measured)
    is_told = request.plan != AUTO
    wanted = to.wanted(writes=SLIP, inputs=options.inputs_of(measured, request.plan if is_told else None))
    schedule, saved = schedule_from(request.plan) if is_told else (None, None)
    costs = None if saved is None or saved.costs.source == "units" or request.costs_from_run else saved.costs
    with options.opened(measured, ranks=request.ranks, max_bytes=request.max_bytes, frames=True) as source:
        run = measured_run(source, replica=request.replica, workers=request.workers)
    if schedule is None:
        schedule = told_schedule(run, request.step)
    outputs.deliver(slip_report(slip(schedule, run, costs, step=request.step)), SLIP, wanted)


command = command_of((Request, outputs.Destination), run)
