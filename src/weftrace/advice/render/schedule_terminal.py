"""A swapped pipeline schedule in a terminal and as Markdown; drawn from its document."""

from __future__ import annotations

from rich.console import Console, RenderableType

from weftrace.advice.render.terminal import notes_block, opening
from weftrace.advice.render.words import off
from weftrace.advice.swaps.schedule_document import ScheduleSwapDocument
from weftrace.render.console_parts import print_blocks, table
from weftrace.render.console_text import clean
from weftrace.render.markdown import markdown_cell, markdown_table
from weftrace.units import counted, duration

MAX_WIDTH = 140
HEADS = ("schedule", "makespan", "")


def print_schedule_swap(document: ScheduleSwapDocument, console: Console) -> None:
    """Print a `weftrace.schedule_swap/1` document: what was measured, simulated, and tried."""
    width = min(console.width, MAX_WIDTH)
    blocks: list[RenderableType] = [
        *opening(
            "whatif --schedule", document["source"], document["device_name"], document["ranks"], document["headline"]
        ),
        table(HEADS, _rows(document), width, left=(HEADS[0], HEADS[2]), bold=2),
    ]
    print_blocks([*blocks, *notes_block(document["notes"])], console, width)


def schedule_swap_markdown(document: ScheduleSwapDocument) -> str:
    """The same, to paste."""
    notes = "\n".join(f"- {markdown_cell(note)}" for note in document["notes"])
    rows = [[markdown_cell(cell) for cell in row] for row in _rows(document)]
    parts = [document["headline"], markdown_table(HEADS, rows), notes, f"weftrace {document['weftrace']}"]
    return "\n\n".join(filter(None, parts)) + "\n"


def _rows(document: ScheduleSwapDocument) -> list[list[str]]:
    size = (
        f"{counted(document['num_ranks'], 'rank')}, {counted(document['num_stages'], 'stage')}, "
        f"{counted(document['num_micro_batches'], 'micro-batch')}, step {document['step']}"
    )
    was = clean(document["measured_schedule"])
    return [
        [f"{was}, measured", duration(document["measured_ns"]), size],
        [f"{was}, simulated", duration(document["simulated_ns"]), f"{off(document['error'])} off the measurement"],
        [f"{document['schedule']}, simulated", duration(document["after_ns"]),
         f"{off(document['change'])} of the one above"],
    ]  # fmt: skip
