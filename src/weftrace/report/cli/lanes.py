"""`weftrace lanes`: the lane picture in the terminal, as an SVG file, and as a page that zooms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Meta

from weftrace.cli import options, outputs
from weftrace.cli.requests import command_of
from weftrace.errors import UNUSABLE_INPUT
from weftrace.options import Option
from weftrace.units import MS

if TYPE_CHECKING:
    from weftrace.report.document_types import ReportDocument

EPILOG = """[bold]Examples[/bold]

weftrace lanes train.json.gz                         the whole trace, wrapped over several rows

weftrace lanes train.json.gz --from 30 --to 60       30 ms to 60 ms after the first device event

weftrace lanes train.json.gz --from 30 --to 60 -o lanes.svg    as a picture for a document

weftrace lanes train.json.gz -o lanes.html           as a page that zooms

weftrace lanes traces/ --ranks 3                     one rank of a folder"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Which lanes to draw, and from when to when."""

    sources: options.Sources
    start_ms: Annotated[float | None, Option("Start, ms from the first device event.", ("--from",), metavar="MS")] = (
        None
    )
    end_ms: Annotated[float | None, Option("End, ms from the first device event.", ("--to",), metavar="MS")] = None
    width: Annotated[int | None, Meta(ge=40), Option("Width in columns; default: the terminal's.")] = None
    step: options.Step = None
    step_by: options.StepByChoice = None
    ranks: options.Ranks = None
    kernels: options.Kernels = None
    workers: options.Workers = None
    max_bytes: options.MaxBytes = options.DEFAULT_MAX_BYTES


def run(request: Request, to: outputs.Destination) -> None:
    """Draw the compute lane above the communication lane, with one box per phase, as DeepSeek's profiles do."""
    selected_by = options.step_by_of(request.step, request.step_by)
    rules = options.load_kernels(request.kernels)
    wanted = to.wanted(
        writes=[".svg", outputs.PAGE],
        inputs=options.inputs_of(request.sources, *(request.kernels or ())),
        name="weftrace-lanes",
    )
    with options.opened(
        request.sources, ranks=request.ranks, max_bytes=request.max_bytes, workers=request.workers
    ) as trace:
        from weftrace.analysis.activity import MOST
        from weftrace.render.lanes_text import print_lanes
        from weftrace.report import analyze

        with options.rank_progress(trace) as on_done:
            report = analyze(
                trace,
                rules=rules,
                step=request.step,
                step_by=selected_by,
                timelines=False,
                most_stretches=MOST,
                workers=request.workers,
                on_done=on_done,
            )
    console = outputs.stdout()
    start, end = (None if time is None else round(time * MS) for time in (request.start_ms, request.end_ms))
    drawn = report.document["ranks"]
    for path in wanted.paths:
        _write_picture(path, report.document, start or 0, end)
    several = len({(rank["rank"], rank["path"]) for rank in drawn}) < len(drawn)
    for number, rank in enumerate([] if wanted.quiet else drawn):
        if number:
            console.print()
        print_lanes(rank, console, request.width, start_ns=start, end_ns=end, with_device=several)
    if wanted.page is not None:
        outputs.show_page(wanted.page)
    options.tell_failures([failure["error"] for failure in report.document["failures"]])
    if not report.document["ranks"]:
        raise typer.Exit(UNUSABLE_INPUT)


command = command_of((Request, outputs.Destination), run, without=("json",))


def _write_picture(path: str, report: ReportDocument, start_ns: int, end_ns: int | None) -> None:
    """One rank's lanes. Raises `typer.BadParameter` for several ranks."""
    from weftrace.files.output import write_output
    from weftrace.render.lanes_scene import lanes_svg
    from weftrace.report.render.lanes_page import render_lanes_html

    if len(drawn := report["ranks"]) != 1:
        summary = f"{path}: a picture shows the lanes of one rank, and there are {len(drawn)}; choose one with --ranks"
        raise typer.BadParameter(summary, param_hint="--output")
    (rank,) = drawn
    if path.lower().endswith(outputs.PAGE):
        text = render_lanes_html(rank, report["headline"], start_ns=start_ns, end_ns=end_ns)
    else:
        text = lanes_svg(rank, title=rank["path"], start_ns=start_ns, end_ns=end_ns)
    write_output(path, [text])
    outputs.tell_written(path)
