"""How far a rank's numbers can be trusted, said so that nobody can miss it where the answer is: not quite."""

from __future__ import annotations

from typing import Literal

from rich.console import RenderableType
from rich.text import Text

from weftrace.render.console_parts import BOLD, DIM, ERROR, WARNING, frame
from weftrace.render.console_text import clean
from weftrace.report.document_types import RankDocument
from weftrace.report.render.terminal_code import unread_frames

_FLAGS = {"simulated": "simulated", "host": "host operators instead of device work", "none": "no work"}
_COUNTS: dict[Literal["dropped", "repaired", "clipped", "unlinked", "out_of_window"], str] = {
    "dropped": "dropped",
    "repaired": "repaired",
    "clipped": "clipped",
    "unlinked": "unlinked (no launch call)",
    "out_of_window": "outside the recording",
}


def _flags(rank: RankDocument) -> list[str]:
    """What makes a rank's numbers other than a whole measurement of a device."""
    truncated = rank["quality"]["truncated"]
    present = ["simulated"] * bool(rank["simulated"]) + [rank["basis"]]
    return [_FLAGS[key] for key in present if key in _FLAGS] + ["file cut short"] * bool(truncated)


def _counts(rank: RankDocument) -> list[str]:
    """Events that were lost or mended, by what happened to them. A simulated event has no launch call to miss."""
    quality = rank["quality"]
    keys = [key for key in _COUNTS if quality[key] and not (key == "unlinked" and rank["simulated"])]
    return [f"{quality[key]:,} {_COUNTS[key]}" for key in keys]


def concerns(rank: RankDocument) -> list[str]:
    """Why the numbers of a rank are partial, in short; empty when they are not."""
    verdict = rank["quality"]["verdict"]
    found = _flags(rank) + _counts(rank)
    return found or ([] if verdict == "good" else [f"quality {clean(verdict)}"])


def quality_frame(rank: RankDocument) -> RenderableType | None:
    """A frame before the numbers, where they are partial or no measurement; nothing where all is well."""
    if not concerns(rank):
        return None
    quality = rank["quality"]
    verdict, counts = quality["verdict"], _counts(rank)
    notes = [clean(note) for note in quality["notes"]]
    if quality["truncated"] and not any(clean(quality["truncated"]) in note for note in notes):
        notes.append(f"the file is cut short: {clean(quality['truncated'])}")
    lines = [Text("Events: " + ", ".join(counts), style=BOLD)] * bool(counts)
    lines += [Text(f"- {note}") for note in notes]
    style = ERROR if verdict == "doubtful" or rank["basis"] == "none" else WARNING
    flags = f" ({'; '.join(_flags(rank))})" if _flags(rank) else ""
    return frame(f"Data quality: {clean(verdict)}{flags}", lines, style)


def quality_line(rank: RankDocument) -> RenderableType | None:
    """The last line: that all is well, when it is; and what was read and not used, by kind."""
    quality = rank["quality"]
    skipped = [f"{count:,} {clean(kind)}" for kind, count in quality["skipped"].items() if count]
    lines = []
    if not concerns(rank):
        lines.append("Data quality: good; nothing was dropped, clipped or left unlinked.")
        lines += [clean(note) for note in quality["notes"]]
    if skipped:
        lines.append("Events read but not used: " + ", ".join(skipped) + ".")
    if unread := unread_frames(rank):
        lines.append(unread)
    return Text("\n".join(lines), style=DIM) if lines else None
