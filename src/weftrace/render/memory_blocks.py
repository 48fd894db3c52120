"""What a recording's memory was, in sentences and tables of a terminal: for reports and for `weftrace memory`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from weftrace.analysis.memory.use_of_memory import BEFORE, AliveRow
from weftrace.render.console_parts import rows_table, section
from weftrace.units import counted, duration, percent, size

_ROWS = 12


def peak_sentence(use: Mapping[str, Any]) -> str:
    """The peak, and who held most of it. use: a document of `MemoryUse`."""
    text = f"{use['device']}: at most {size(use['peak_bytes'])} allocated"
    if not use["alive"] or use["peak_bytes"] <= 0:
        return f"{text}."
    top = use["alive"][0]
    if top["operator"] == BEFORE:
        return f"{text}; {percent(top['share'])} of it was allocated before the recording."
    return f"{text}; {percent(top['share'])} of it by {top['operator']}."


def memory_sentences(use: Mapping[str, Any]) -> list[str]:
    """Peak, beginning and end, and what was reserved, not allocated. use: a document of `MemoryUse`."""
    lines = [
        f"At most {size(use['peak_bytes'])} allocated, {duration(use['peak_ns'])} after the start of "
        f"the span; {size(use['first_bytes'])} at the start of the recording, {size(use['last_bytes'])} "
        "at its end."
    ]
    if use["is_relative"]:
        lines.append("The file has no totals, so bytes count from the start of the recording.")
    if use["reserved_bytes"] is not None:
        spare, most = size(use["fragmented_bytes"]), size(use["most_fragmented_bytes"])
        lines.append(
            f"Reserved at the peak: {size(use['reserved_bytes'])}, {spare} of it not allocated; at most "
            f"{size(use['most_reserved_bytes'])} reserved, and {most} not allocated."
        )
    return lines


def memory_blocks(use: Mapping[str, Any], width: int) -> Iterator[RenderableType]:
    """One device: what there was over time, and what was alive at the peak. use: a document of `MemoryUse`."""
    lines = map(Text, memory_sentences(use))
    yield Group(section(f"Memory of {use['device']}", counted(use["num_events"], "event")), *lines)
    rows = use["alive"]
    note = f"the first {_ROWS} of {len(rows):,}" if len(rows) > _ROWS else ""
    yield Group(section("Allocated at the peak", note), rows_table(AliveRow, rows[:_ROWS], width))
