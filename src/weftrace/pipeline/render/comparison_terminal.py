"""A comparison of pipeline schedules in a terminal; drawn from its summary, so a saved JSON prints the same."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.text import Text

from weftrace.pipeline.comparing.document import ComparisonSummary, ScheduleRow
from weftrace.pipeline.render.comparison_words import (
    comparison_headline,
    costs_in,
    law_cell,
    law_lines,
    setting,
    shares,
)
from weftrace.pipeline.render.words import time_text
from weftrace.render.console_parts import DIM, opening, print_blocks, section, table
from weftrace.render.console_text import clean
from weftrace.units import grouped, percent, unit_for

MAX_WIDTH = 140


def print_comparison(summary: ComparisonSummary, console: Console) -> None:
    """Print a comparison: the best, the table, the laws, what is impossible."""
    width = min(console.width, MAX_WIDTH)
    blocks = opening("pipeline compare", [setting(summary)], comparison_headline(summary))
    if summary.rows:
        blocks += [_schedules(summary, width), _laws(summary)]
    if summary.impossible:
        lines = [Text(clean(row.reason)) for row in summary.impossible]
        blocks.append(Group(section("Impossible here"), *lines))
    print_blocks(blocks, console, width)


def _schedules(summary: ComparisonSummary, width: int) -> RenderableType:
    rows, unit_ns = summary.rows, summary.unit_ns
    unit = unit_for(max(row.step_ns for row in rows) / 10)  # bubbles, and what laws miss of them, are far shorter

    def text(time_ns: float) -> str:
        if unit_ns:
            return time_text(time_ns, unit_ns)
        return grouped(time_ns / unit.ns, 1 if abs(time_ns) < 1_000 * unit.ns else 0)

    heads = ["", "step", "idle", "bubble", "law", "off", "published", "act.", "par.", "dev."]
    lines = [
        [
            row.name + ("" if row.fits else " †"),
            text(row.step_ns),
            percent(row.bubble_share),
            text(row.bubble_ns),
            law_cell(row.exact, text),
            _off(row, text),
            law_cell(row.published, text),
            shares(row.peak_activations),
            shares(row.parameters) + "x",
            str(row.num_devices),
        ]
        for row in rows
    ]
    by_devices = summary.equal == "devices"
    if by_devices:
        heads, lines = heads[:-1], [line[:-1] for line in lines]
    order = "fastest first" if by_devices else "least time of devices first"
    order += "" if all(row.fits for row in rows) else ", those over the cap last"
    note = Text(f"{costs_in(summary)}; times in {'units' if unit_ns else unit.name}", style=DIM)
    keys = (
        "law: of the bubble, exact; off: law less simulation; *: the law does not hold here; act.: activations held at "
        "most; par.: parameters" + "; dev.: devices" * (not by_devices)
    )
    if not all(row.fits for row in rows):
        keys += f"; †: more than {shares(summary.memory_cap or 0)} activations"
    rows_summary = table(heads, lines, width, left=[""], gap=2 if unit_ns else 1)
    needs = [Text(f"{row.title} needs {row.needs}.", style=DIM) for row in rows if row.needs]
    left_out = [Text(summary.left_out, style=DIM)] if summary.left_out else []
    return Group(section("Schedules", order), note, rows_summary, Text(keys, style=DIM), *needs, *left_out)


def _off(row: ScheduleRow, text: Callable[[float], str]) -> str:
    difference = None if row.exact is None else row.exact.difference_ns
    return "–" if difference is None else text(difference) if difference else "0"


def _laws(summary: ComparisonSummary) -> RenderableType:
    lines = [section("Laws of the bubble", "of the device that idles most, without messages")]
    for law in law_lines(summary.rows):
        head = f"{law['title']}, {law['which']}: "
        lines.append(Text.assemble((head, DIM), clean(law["formula"]), (f"  {law['holding']}", DIM)))
    return Group(*lines)
