"""What a recording's memory was, in sentences: for the terminal's report and for `weftrace memory`."""

from __future__ import annotations

from weftrace.analysis.memory import MemoryUse
from weftrace.units import duration, percent, size


def peak_sentence(use: MemoryUse) -> str:
    """The peak, and who held most of it."""
    since = "since the recording began, " if use.is_relative else ""
    text = f"{use.device}: at most {size(use.peak_bytes)} allocated, {since}{duration(use.peak_ns)} into the span"
    top = use.alive.row(0, named=True) if use.alive.height else None
    return f"{text}; {percent(top['share'])} of it by {top['operator']}." if top and use.peak_bytes else f"{text}."


def sentences_of_use(use: MemoryUse) -> list[str]:
    """Peak, beginning and end, and what was reserved and not allocated."""
    lines = [
        f"At most {size(use.peak_bytes)} allocated, {duration(use.peak_ns)} from the start of the span; "
        f"{size(use.first_bytes)} when the recording began, {size(use.last_bytes)} when it ended."
    ]
    if use.is_relative:
        lines.append("The file has no sums: bytes count from the start of the recording.")
    if use.reserved_bytes is not None and use.most_fragmented_bytes is not None:
        lines.append(
            f"Reserved at the peak: {size(use.reserved_bytes)}, {size(use.fragmented_bytes)} of it not allocated; "
            f"at most {size(use.most_reserved_bytes)} reserved, and {size(use.most_fragmented_bytes)} not allocated."
        )
    return lines
