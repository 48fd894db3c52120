"""`weftrace demo`: DeepSeek-V3's training chunk, simulated and reported on; nothing but weftrace is needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from weftrace.cli import outputs
from weftrace.cli.requests import command_of
from weftrace.options import Option

if TYPE_CHECKING:
    from rich.console import Console

    from weftrace.report import Report

EPILOG = """[bold]Examples[/bold]

weftrace demo                                                summary and lanes in the terminal

weftrace demo -o demo.html -o demo.trace.json.gz             also a page, and a trace for Perfetto or chrome://tracing

weftrace demo --layers 8                                     a longer chunk"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """How much to simulate."""

    layers: Annotated[int, Meta(ge=1, le=1000), Option("Number of layer pairs to simulate.")] = 4


def run(request: Request, to: outputs.Destination) -> None:
    """Simulate DeepSeek-V3's training chunk, forward and backward layers overlapped, and report on it."""
    from weftrace.plan import deepseek_training_layers, simulate
    from weftrace.report import analyze
    from weftrace.report.outputs import REPORT
    from weftrace.trace import write_chrome

    trace = simulate(deepseek_training_layers(request.layers))
    as_trace = dict.fromkeys(
        (".trace.json", ".trace.json.gz", ".trace.json.zst"), lambda report, path: write_chrome(trace, path)
    )
    kind = replace(REPORT, save={**REPORT.save, **as_trace})
    wanted = to.wanted(writes=kind)
    report = analyze(trace, timelines=wanted.has(".html"))
    outputs.deliver(report, kind, wanted, show=partial(_show, layers=request.layers))


command = command_of((Request, outputs.Destination), run)


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
