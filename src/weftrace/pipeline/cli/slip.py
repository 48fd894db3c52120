"""`weftrace pipeline slip`: a measured step beside its plan, per op and rank, with causes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from weftrace.cli import options, outputs
from weftrace.cli.requests import command_of
from weftrace.files.schemas import Count
from weftrace.options import Option
from weftrace.pipeline.cli.options import schedule_from

EPILOG = """[bold]Examples[/bold]

weftrace pipeline show dualpipe --stages 4 --micro-batches 8 --costs costs.json -o plan.json

weftrace pipeline slip plan.json measured/

weftrace pipeline slip plan.json measured/ -o slip.html

weftrace pipeline slip plan.json measured/ --costs-from-run -o slip.json -o slip.csv"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A plan, and the traces of the run that it is held against."""

    plan: Annotated[
        str,
        Option(
            "The schedule that was run: the JSON of `weftrace pipeline show … -o plan.json`, or its .txt or .csv.",
            is_argument=True, metavar="PLAN",
        ),
    ]  # fmt: skip
    measured: Annotated[
        tuple[str, ...],
        Option(
            "A folder with a trace of each rank, recorded with weftrace's pipeline runtime; or the traces.",
            is_argument=True, metavar="TRACE...",
        ),
    ]  # fmt: skip
    step: Annotated[
        Count | None, Option("Which recorded pipeline step, from 0.", metavar="N", shows_default="the last")
    ] = None
    costs_from_run: Annotated[
        bool,
        Option(
            "Plan with the means of the step itself: the difference is then the prediction's error. So it is anyway "
            "for a plan without costs."
        ),
    ] = False
    ranks: options.Ranks = None
    workers: options.Workers = None
    max_bytes: options.MaxBytes = options.DEFAULT_MAX_BYTES


def run(request: Request, to: outputs.Destination) -> None:
    """Planned against measured: makespans, their difference by cause, each rank's bubble, what took longer."""
    from weftrace.pipeline.measured.runs import run_of
    from weftrace.pipeline.outputs import SLIP
    from weftrace.pipeline.plan_vs_measured.document import slip_report
    from weftrace.pipeline.plan_vs_measured.planned_and_measured import slip

    measured = list(request.measured)
    wanted = to.wanted(writes=SLIP, inputs=options.inputs_of(measured, request.plan))
    schedule, saved = schedule_from(request.plan)
    costs = None if saved is None or saved.costs.source == "units" or request.costs_from_run else saved.costs
    with options.opened(measured, ranks=request.ranks, max_bytes=request.max_bytes) as source:
        run = run_of(source, workers=request.workers)
    outputs.deliver(slip_report(slip(schedule, run, costs, step=request.step)), SLIP, wanted)


command = command_of((Request, outputs.Destination), run)
