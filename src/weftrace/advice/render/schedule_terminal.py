"""A swapped pipeline schedule in a terminal and as Markdown; drawn from its value."""

from __future__ import annotations

import polars as pl
from rich.console import Console, RenderableType

from weftrace.advice.render.terminal import opening_of
from weftrace.advice.swaps.schedules import ScheduleSwap
from weftrace.files.values import to_document
from weftrace.render.console_parts import notes_block, print_blocks, table
from weftrace.render.console_text import clean
from weftrace.render.markdown import markdown_table, markdown_text
from weftrace.units import counted, duration, signed
from weftrace.version import __version__

MAX_WIDTH = 140
HEADS = ("schedule", "makespan", "")


def print_schedule_swap(report: ScheduleSwap, console: Console) -> None:
    """Print a `weftrace.schedule_swap/1` report: what was measured, simulated, and tried."""
    width = min(console.width, MAX_WIDTH)
    blocks: list[RenderableType] = [
        *opening_of("whatif --schedule", report),
        table(HEADS, _rows(report), width, left=(HEADS[0], HEADS[2]), bold=2),
    ]
    print_blocks([*blocks, *notes_block(report.notes)], console, width)


def schedule_swap_markdown(report: ScheduleSwap) -> str:
    """The same, to paste."""
    notes = "\n".join(f"- {markdown_text(note)}" for note in report.notes)
    parts = [markdown_text(report.headline), markdown_table(HEADS, _rows(report)), notes, f"weftrace {__version__}"]
    return "\n\n".join(filter(None, parts)) + "\n"


def schedule_swap_table(report: ScheduleSwap) -> pl.DataFrame:
    """One row: all but notes and ranks."""
    return pl.DataFrame([{name: each for name, each in to_document(report).items() if name not in ("notes", "ranks")}])


def _rows(report: ScheduleSwap) -> list[list[str]]:
    size = (
        f"{counted(report.num_ranks, 'rank')}, {counted(report.num_stages, 'stage')}, "
        f"{counted(report.num_micro_batches, 'micro-batch')}, step {report.step}"
    )
    was = clean(report.measured_schedule)
    return [
        [f"{was}, measured", duration(report.measured_ns, 4), size],
        [f"{was}, simulated", duration(report.simulated_ns, 4), f"{signed(report.error, 2)} off the measurement"],
        [f"{report.schedule}, simulated", duration(report.after_ns, 4),
         f"{signed(report.change, 2)} of the one above"],
    ]  # fmt: skip
