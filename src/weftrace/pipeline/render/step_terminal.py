"""A whole step in a terminal; a saved one prints the same."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.text import Text

from weftrace.pipeline.render.recommendation_terminal import costs_block
from weftrace.pipeline.steps.document import RateRow, StepReport
from weftrace.render.console_parts import DIM, WARNING, opening, print_blocks, section, table
from weftrace.render.console_text import clean
from weftrace.units import counted, duration, percent, si, signed

MAX_WIDTH = 140
_BAR = 8


def print_step(report: StepReport, console: Console) -> None:
    """Print a step: the parts, the rates, a published step beside it."""
    width = min(console.width, MAX_WIDTH)
    shape = (
        f"{counted(report.num_stages, 'stage')}, {counted(report.num_micro_batches, 'micro-batch')} a "
        f"pipeline, {counted(report.num_pipelines, 'pipeline')}"
    )
    blocks: list[RenderableType] = [
        *opening("pipeline step", (report.schedule, shape), report.headline),
        *(Text(clean(flag), style=WARNING) for flag in report.flags),
        costs_block(report.costs),
        _parts(report, width),
        _rates(report, width),
    ]
    if report.bubble is not None:
        blocks.append(Group(section("The published bubble"), Text(clean(report.bubble.text))))
    assumed = [Text(clean(f"Assumed: {text}."), style=DIM) for text in report.assumptions]
    print_blocks([*blocks, Group(*assumed)], console, width)


def _parts(report: StepReport, width: int) -> RenderableType:
    longest = max((row.time_ns for row in report.parts), default=1) or 1
    has_published = report.published is not None
    lines = []
    for row in report.parts:
        counts = "" if row.fewest is None else f"{row.fewest}–{row.most}"
        counts = str(row.most) if row.fewest == row.most and row.most is not None else counts
        line = [row.name, duration(row.time_ns), "█" * round(_BAR * row.time_ns / longest), counts]
        past = row.published_ns
        if has_published:
            off = signed(row.time_ns / past - 1 if past and row.time_ns else None)
            line += [duration(past), off]
        lines.append([*line, row.basis])
    total = ["step", duration(report.step_ns), "", ""]
    if (past := report.published_step_ns) is not None:
        alike = all(row.basis != "not given" for row in report.parts)
        total += [duration(past), signed(report.step_ns / past - 1 if alike else None)]
    lines.append([*total, ""])
    heads = ["part", "time", "", "actions", *(["published", "off"] if has_published else []), "rests on"]
    note = "means over ranks; actions of a rank, fewest to most"
    source = (
        [] if report.published_source is None else [Text(clean(f"Published: {report.published_source}"), style=DIM)]
    )
    return Group(
        section("Parts", note), table(heads, lines, width, left=("part", "", "rests on"), bold=len(lines) - 1), *source
    )


def _rates(report: StepReport, width: int) -> RenderableType:
    has_published = report.published is not None
    lines = [["tokens/s", si(report.tokens_per_s), *(["–", "–"] if has_published else [])]]
    for row in report.rates:
        cells = [_rate(row, row.predicted)]
        if has_published:
            cells += [_rate(row, row.counted), _rate(row, row.published)]
        lines.append([row.name, *cells])
    heads = ["rate", "predicted", *(["counted", "published"] if has_published else [])]
    note = "counted: our count on the published step's time" if has_published else ""
    parts: list[RenderableType] = [section("Rates", note), table(heads, lines, width, left=("rate",))]
    if report.model is None:
        parts.append(Text("FLOP/s and MFU need the model, and MFU the accelerator: --model, --hardware.", style=DIM))
    return Group(*parts)


def _rate(row: RateRow, value: float | None) -> str:
    if value is None:
        return "–"
    if row.name.startswith("MFU"):
        return percent(value, 2)
    return f"{value / 1e9:,.2f} B" if row.name.startswith("tokens") else f"{value / 1e12:,.1f} T"
