"""`weftrace report`: everything about a trace or a job, in the terminal, as HTML, as JSON."""

from __future__ import annotations

from typing import Annotated

import typer

from weftrace.cli import options

EPILOG = """[bold]Examples[/bold]

weftrace report train.json.gz                                       summary in the terminal

weftrace report train.json.gz -o report.html --json report.json     one page that opens offline, and the numbers

weftrace report traces/ --ranks 0,3-5 --workers 8                   some ranks of a folder

weftrace report train.json.gz --flops flops.json --hardware h100    FLOP/s and MFU of each phase, from `weftrace flops
--json`

weftrace report train.json.gz --step 3 --json - | jq '.ranks[0].hidden_fraction'"""


def command(
    source: options.Source,
    output: Annotated[
        str | None, typer.Option("-o", "--output", help="Write one self-contained HTML page.", metavar="HTML")
    ] = None,
    json: Annotated[
        str | None,
        typer.Option(
            "--json", help="Write the numbers as JSON (schema weftrace.report/1); - for stdout.", metavar="JSON"
        ),
    ] = None,
    step: options.Step = None,
    ranks: options.Ranks = None,
    kernels: options.Kernels = None,
    flops: Annotated[
        str | None,
        typer.Option(
            "--flops",
            help="What a step of the same run costs (`weftrace flops … --json`): adds MFU by phase.",
            metavar="JSON",
        ),
    ] = None,
    hardware: Annotated[
        str | None,
        typer.Option(
            "--hardware", help="With --flops: whose peaks count; default: the trace's device.", metavar="NAME"
        ),
    ] = None,
    workers: options.Workers = None,
    max_bytes: options.MaxBytes = options.DEFAULT_MAX_BYTES,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No summary in the terminal.")] = False,
) -> None:
    """Report where the step went: what hides what, what is exposed, what could be saved."""
    rules = options.load_kernels(kernels)
    counted = None
    if flops is not None:
        from weftrace.flops.document import read_flops

        counted = read_flops(flops)
    elif hardware is not None:
        raise typer.BadParameter("it has no meaning without --flops", param_hint="--hardware")
    with options.opened(source, ranks=ranks, max_bytes=max_bytes) as trace:
        from weftrace.report import build_report, print_report, render_html
        from weftrace.trace import write_output

        with options.rank_progress(trace) as on_done:
            report = build_report(
                trace,
                rules=rules,
                step=step,
                timelines=output is not None,
                flops=counted,
                hardware=hardware,
                workers=workers,
                on_done=on_done,
            )
    if json != "-" and not quiet:
        print_report(report.document, options.stdout())
    if json is not None:
        options.write_json(report.document, json)
    if output is not None:
        write_output(output, [render_html(report.document, report.timelines)])
        options.tell_written(output)
    if not report.document["ranks"]:
        for failure in report.document["failures"]:
            typer.echo(f"weftrace: {failure['error']}", err=True)
        raise typer.Exit(2)
