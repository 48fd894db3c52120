"""A recommendation of a pipeline schedule in a terminal; a saved one prints the same."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.text import Text

from weftrace.pipeline.choices.document import CandidateRow, RecommendationReport
from weftrace.pipeline.measured.sourced_costs import CostsSummary
from weftrace.pipeline.render.front_terminal import front_picture
from weftrace.render.console_parts import DIM, opening, print_blocks, section, table
from weftrace.render.console_text import clean
from weftrace.units import counted, duration, percent, size

MAX_WIDTH = 140
_BAR = 15

_BASES = {
    "phases": "phases of a trace",
    "actions": "actions of a measured run",
    "flops": "FLOPs and hardware: an estimate",
    "given": "given",
}


def print_recommendation(report: RecommendationReport, console: Console) -> None:
    """Print a recommendation: the choice, what flips it, every schedule."""
    width = min(console.width, MAX_WIDTH)
    shape = f"{counted(report.num_devices, 'device')}, {counted(report.num_micro_batches, 'micro-batch')}"
    blocks = opening("pipeline recommend", (shape, f"boundary: {report.boundary}"), report.headline)
    if report.sentences:
        blocks.append(Group(*(Text(clean(sentence)) for sentence in report.sentences)))
    blocks.append(costs_block(report.costs))
    if report.rows:
        blocks += filter(None, [_schedules(report, width), front_picture(report, width)])
    if report.impossible:
        lines = [Text(clean(row.reason)) for row in report.impossible]
        blocks.append(Group(section("Impossible here"), *lines))
    print_blocks(blocks, console, width)


def costs_block(costs: CostsSummary) -> RenderableType:
    """What a chunk costs, and how that was come by."""
    upper = " (serial upper bounds)" if costs.is_upper_bound else ""
    parts = ", ".join(f"{letter} {duration(getattr(costs, name))}" for letter, name in _LETTERS)
    overlapped = "F&B taken as F + B"
    if (pair := costs.overlapped_ns) is not None:
        whole = costs.forward_ns + costs.input_ns + costs.weight_ns
        ratio = f" = {pair / whole:.2f} (F + B)" if whole else ""
        overlapped = f"F&B {duration(pair)}{ratio}"
    latency = f", messages {duration(costs.latency_ns)}" if costs.latency_ns else ""
    source = f"{_BASES[costs.basis]}: {costs.source}" if costs.source else _BASES[costs.basis]
    notes = [Text(clean(note), style=DIM) for note in costs.notes]
    return Group(section("A chunk", clean(source)), Text(f"{parts}{upper}, {overlapped}{latency}"), *notes)


_LETTERS = (("F", "forward_ns"), ("I", "input_ns"), ("W", "weight_ns"))


def _schedules(report: RecommendationReport, width: int) -> RenderableType:
    rows = report.rows
    longest = max(row.step_ns for row in rows)
    in_bytes = report.memory_in == "bytes"
    lines = [
        [
            clean(row.name),
            duration(row.step_ns),
            _bar(row, longest),
            percent(row.bubble_fraction),
            f"{row.peak_chunks:g}" if not in_bytes else size(row.peak_bytes or 0),
            f"{row.parameters:g}x",
            _mark(row, report.choice),
        ]
        for row in rows
    ]
    heads = ("schedule", "step", "█ busy ░ bubble", "bubble", "memory", "param.", "")
    chosen = next((at for at, row in enumerate(rows) if row.name == report.choice), None)
    what = "activations and parameters" if in_bytes else "chunk activations"
    parts: list[RenderableType] = [
        section(
            "Schedules", f"fastest first; memory: {what} that a device holds at most; ◀ on the front of time and memory"
        ),
        table(heads, lines, width, left=("schedule", "█ busy ░ bubble", ""), bold=chosen),
    ]
    parts += [Text(f"{row.title} needs {row.needs}.", style=DIM) for row in rows if row.needs]
    return Group(*parts)


def _bar(row: CandidateRow, longest_ns: int) -> str:
    """The step to scale, of which the bubble of the rank that idles most stands last."""
    length = round(_BAR * row.step_ns / longest_ns) if longest_ns else 0
    idle = min(round(length * row.bubble_fraction), length)
    return "█" * (length - idle) + "░" * idle


def _mark(row: CandidateRow, choice: str | None) -> str:
    if row.name == choice:
        return "◀ choice"
    if not row.fits:
        return "over the cap"
    if row.needs:
        return "not chosen"
    return "◀" if row.on_front else ""
