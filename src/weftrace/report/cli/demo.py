"""`weftrace demo`: DeepSeek-V3's training chunk, simulated and reported on; nothing but weftrace is needed."""

from __future__ import annotations

from typing import Annotated

import typer

from weftrace.cli import options

EPILOG = """[bold]Examples[/bold]

weftrace demo                                        summary and lanes in the terminal

weftrace demo -o demo.html --trace demo.json.gz      also a page, and a trace for Perfetto or chrome://tracing

weftrace demo --layers 8                             a longer chunk"""


def command(
    output: Annotated[
        str | None, typer.Option("-o", "--output", help="Write one self-contained HTML page.", metavar="HTML")
    ] = None,
    json: Annotated[
        str | None, typer.Option("--json", help="Write the numbers as JSON; - for stdout.", metavar="JSON")
    ] = None,
    trace_path: Annotated[
        str | None, typer.Option("--trace", help="Write the simulated trace as Chrome JSON.", metavar="JSON")
    ] = None,
    layers: Annotated[int, typer.Option("--layers", help="Layer pairs to simulate.", min=1, max=1000)] = 4,
) -> None:
    """Simulate DeepSeek-V3's training chunk, forward and backward layers overlapped, and report on it."""
    from weftrace.plan import deepseek_training_layers, simulate
    from weftrace.plan.deepseek import RECIPE
    from weftrace.plan.recipe import load_recipe
    from weftrace.report import build_report, print_lanes, print_report, render_html
    from weftrace.trace import write_chrome, write_output
    from weftrace.units import us

    plan = deepseek_training_layers(layers)
    trace = simulate(plan)
    report = build_report(trace, timelines=output is not None)
    rank = report.document["ranks"][0]
    if json != "-":
        console = options.stdout()
        print_lanes(rank, console)
        console.print()
        print_report(report.document, console)
        measured = load_recipe(RECIPE)
        if layers == measured.measured_layers:
            console.print(
                f"\nSimulated span {us(rank['span_ns'])}; DeepSeek's published profile measures "
                f"{us(measured.measured_span_ns)}: {rank['span_ns'] / measured.measured_span_ns - 1:+.1%}."
            )
    if json is not None:
        options.write_json(report.document, json)
    if trace_path is not None:
        write_chrome(trace, trace_path)
        options.tell_written(trace_path)
    if output is not None:
        write_output(output, [render_html(report.document, report.timelines)])
        options.tell_written(output)
