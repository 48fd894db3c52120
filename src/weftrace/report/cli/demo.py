"""`weftrace demo`: DeepSeek-V3's training chunk, simulated and reported on; nothing but weftrace is needed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from weftrace.cli import outputs

if TYPE_CHECKING:
    from rich.console import Console

    from weftrace.report import Report

EPILOG = """[bold]Examples[/bold]

weftrace demo                                                summary and lanes in the terminal

weftrace demo -o demo.html -o demo.trace.json.gz             also a page, and a trace for Perfetto or chrome://tracing

weftrace demo --layers 8                                     a longer chunk"""


def command(
    output: outputs.Files = None,
    json: outputs.Json = False,
    layers: Annotated[int, typer.Option("--layers", help="Layer pairs to simulate.", min=1, max=1000)] = 4,
    quiet: outputs.Quiet = False,
) -> None:
    """Simulate DeepSeek-V3's training chunk, forward and backward layers overlapped, and report on it."""
    from weftrace.outputs import writers
    from weftrace.plan import deepseek_training_layers, simulate
    from weftrace.report import analyze
    from weftrace.report.outputs import REPORT
    from weftrace.trace import write_chrome

    trace = simulate(deepseek_training_layers(layers))
    as_trace = dict.fromkeys(
        (".trace.json", ".trace.json.gz", ".trace.json.zst"), lambda report, path: write_chrome(trace, path)
    )
    wanted = outputs.wanted(output, writes={**writers(REPORT), **as_trace}, json=json, quiet=quiet)
    report = analyze(trace, timelines=wanted.has(".html"))
    outputs.deliver(report, REPORT, wanted, show=partial(_show, layers=layers), save=as_trace)


def _show(report: Report, console: Console, *, layers: int) -> None:
    """The lane picture, the summary, and how far the simulated span is from the published one, where that was of as
    many layers.
    """
    from weftrace.plan.deepseek import RECIPE
    from weftrace.plan.recipe import load_recipe
    from weftrace.render.lanes_text import print_lanes
    from weftrace.report import print_report
    from weftrace.units import duration, signed

    rank = report.document["ranks"][0]
    print_lanes(rank, console)
    console.print()
    print_report(report.document, console)
    measured = load_recipe(RECIPE)
    if layers == measured.measured_layers:
        console.print(
            f"\nSimulated span {duration(rank['span_ns'], 4)}; DeepSeek's published profile measures "
            f"{duration(measured.measured_span_ns, 4)}: {signed(rank['span_ns'] / measured.measured_span_ns - 1)}."
        )
