"""`weftrace pipeline slip`: a measured step beside its plan, per op and rank, with causes."""

from __future__ import annotations

from typing import Annotated

import typer

from weftrace.cli import outputs
from weftrace.cli.options import DEFAULT_MAX_BYTES, MaxBytes, Ranks, Workers
from weftrace.pipeline.cli.options import schedule_from

EPILOG = """[bold]Examples[/bold]

weftrace pipeline show dualpipe --stages 4 --micro-batches 8 --costs costs.json -o plan.json

weftrace pipeline slip plan.json measured/

weftrace pipeline slip plan.json measured/ -o slip.html

weftrace pipeline slip plan.json measured/ --costs-from-run -o slip.json -o slip.csv"""


def command(
    plan: Annotated[
        str,
        typer.Argument(
            metavar="PLAN",
            help="The schedule that was run: the JSON of `weftrace pipeline show … -o plan.json`, or its .txt or .csv.",
            show_default=False,
        ),
    ],
    measured: Annotated[
        list[str],
        typer.Argument(
            metavar="TRACE...",
            help="A folder with a trace of each rank, recorded with weftrace's pipeline runtime; or the traces.",
            show_default=False,
        ),
    ],
    step: Annotated[
        int | None,
        typer.Option(
            "--step",
            help="Which recorded pipeline step, from 0.",
            min=0,
            metavar="N",
            show_default="the last",
        ),
    ] = None,
    costs_from_run: Annotated[
        bool,
        typer.Option(
            "--costs-from-run",
            help="Plan with the means of the step itself: the difference is then the prediction's "
            "error. So it is anyway for a plan without costs.",
        ),
    ] = False,
    ranks: Ranks = None,
    workers: Workers = None,
    max_bytes: MaxBytes = DEFAULT_MAX_BYTES,
    output: outputs.Files = None,
    json: outputs.Json = False,
    quiet: outputs.Quiet = False,
) -> None:
    """Planned against measured: makespans, their difference by cause, each rank's bubble, what took longer."""
    from weftrace.cli.options import inputs_of, opened
    from weftrace.pipeline.measured.runs import run_of
    from weftrace.pipeline.outputs import SLIP
    from weftrace.pipeline.plan_vs_measured.document import slip_report
    from weftrace.pipeline.plan_vs_measured.planned_and_measured import slip

    wanted = outputs.wanted(output, writes=SLIP, inputs=inputs_of(measured, plan), json=json, quiet=quiet)
    schedule, saved = schedule_from(plan)
    costs = None if saved is None or saved.costs.source == "units" else saved.costs
    with opened(measured, ranks=ranks, max_bytes=max_bytes) as source:
        run = run_of(source, workers=workers)
    found = slip(schedule, run, None if costs_from_run else costs, step=step)
    outputs.deliver(slip_report(found), SLIP, wanted)
