"""How fast collectives move their data, in the terminal: with waiting, and once all ranks are there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rich.console import Group, RenderableType
from rich.text import Text

from weftrace.analysis.transfer_bandwidth import AT_LEAST, BandwidthRow
from weftrace.render.console_parts import DIM, rows_table, section
from weftrace.render.console_text import clean
from weftrace.report.document_types import Block, ReportDocument
from weftrace.units import counted, duration, percent, size

_MAX_ROWS = 8
_HEADS = {"basis": "by"}


def bandwidth_blocks(document: ReportDocument, width: int) -> list[RenderableType]:
    """The collectives that take longest; of ranks that record no sizes, nothing."""
    found = document.get("bandwidth")
    if not found or not found["rows"]:
        return []
    shown = found["rows"][:_MAX_ROWS]
    names = ["collective", "group_size", "payload_bytes", "whole_busbw_GBps", "transfer_ns", "busbw_GBps",
             "best_busbw_GBps", *["peak_share"] * any(row.get("peak_share") is not None for row in shown),
             *["basis"] * any(row["basis"] != "all ranks" for row in shown)]  # fmt: skip
    cells: dict[str, Callable[[Block], str]] = {
        name: partial(rate_text, name=name) for name in names if "busbw" in name
    }
    cells["peak_share"] = share_text
    if len({row["group"] for row in found["rows"]}) > 1:
        cells["collective"] = lambda row: clean(f"{row['collective']} {row['group']}")
    body = rows_table(BandwidthRow, shown, width, names, cells=cells, heads=_HEADS, left=("collective", "by"))
    notes = bandwidth_notes(found, len(shown))
    head = section("Bandwidth", "median busbw: the whole includes waiting, the transfer does not")
    said = [Text(note) for note in found.get("notes", ())]
    return [Group(head, body, *said, *[Text(f"{'; '.join(notes)}.", style=DIM)] * bool(notes))]


def bandwidth_lines(found: Block, most: int) -> tuple[tuple[str, ...], list[list[str]]]:
    """Heads and cells of the collectives that take longest, for Markdown."""
    heads = ("collective", "group", "size", "events", "busbw whole", "transfer", "best", "by")
    lines = [
        [row["collective"], row["group"], size(row["payload_bytes"]), f"{row['num_events']:,}",
         *(f"{rate_text(row, name)} GB/s" for name in ("whole_busbw_GBps", "busbw_GBps", "best_busbw_GBps")),
         row["basis"]]
        for row in found["rows"][:most]
    ]  # fmt: skip
    return heads, lines


def rate_text(row: Block, name: str) -> str:
    """A bandwidth of a row: "≥" before one that is a lower bound, algbw where busbw has no factor, a dash where nothing
    is known."""
    value, of_alg = row[name], ""
    if value is None and name in ("whole_busbw_GBps", "busbw_GBps") and row["whole_busbw_GBps"] is None:
        value, of_alg = row["payload_bytes"] / row["whole_ns"] if name[0] == "w" else row["algbw_GBps"], " algbw"
    bound = "≥" if row["basis"] in AT_LEAST and name != "whole_busbw_GBps" else ""
    return "–" if value is None else f"{bound}{value:,.1f}{of_alg}" if value >= 0.1 else f"{bound}{value:.2g}{of_alg}"


def share_text(row: Block) -> str:
    """The part of the peak; "≥" where the rate that it is of may hold waiting."""
    share = row.get("peak_share")
    return "–" if share is None else f"{'' if row['basis'] == 'all ranks' else '≥'}{percent(share)}"


def bandwidth_notes(found: Block, num_shown: int) -> list[str]:
    """What is not told, and why."""
    rows = found["rows"]
    notes = []
    if any(row["basis"] in AT_LEAST for row in rows):
        notes.append("≥: the time used as the transfer may include waiting, so the rate is a lower bound")
    if any(row["basis"] == "whole" for row in rows):
        notes.append("whole: the time of the transfer is not known")
    if more := len(rows) - num_shown + found["num_rows_left"]:
        left = f"; the JSON report leaves out {found['num_rows_left']:,} of them ({duration(found['left_ns'])})"
        notes.append(f"{counted(more, 'row')} more{left * bool(found['num_rows_left'])}")
    if found["num_unsized"]:
        notes.append(f"{counted(found['num_unsized'], 'event')} record no size")
    if found["num_without_factor"]:
        notes.append(f"{counted(found['num_without_factor'], 'event')} without busbw: no group size, or no factor")
    if found["num_left_early"]:
        left = counted(found["num_left_early"], "collective")
        notes.append(f"{left} without a transfer, because a rank left before the last one started")
    return notes
