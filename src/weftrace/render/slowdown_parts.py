"""S of a job and its parts, in the terminal and as Markdown: what reports and the command of stragglers show alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
from rich.console import Group, RenderableType
from rich.text import Text

from weftrace.analysis.job_slowdown import Cause, JobSlowdown
from weftrace.render.console_parts import DIM, WARNING, section, table
from weftrace.render.console_text import clean
from weftrace.render.markdown import markdown_table, markdown_text
from weftrace.units import NOTHING, counted, duration, percent, unit_for

_TOP = 8
_LITTLE = 1.0005  # a part of S that is smaller is left out


def summary_line(found: JobSlowdown) -> str:
    """S, what it is made of, and how far the replay is off."""
    hosts = ""
    if abs(found.without_hosts - found.slowdown) >= 0.002:
        hosts = f" (without time between ranges {found.without_hosts:.3f})"
    return (
        f"S = {found.slowdown:.3f}{hosts}: a step takes {duration(found.replayed_ns)}, or "
        f"{duration(found.ideal_ns)} with every operation at the pace of its peers; the replay is "
        f"{percent(abs(found.error), 2)} off"
    )


def lost_line(found: JobSlowdown) -> str:
    """What the recorded steps lost, and how much of it the slowest ranks explain."""
    parts = [
        f"{counted(found.num_steps, 'step')} of {counted(found.num_ranks, 'rank')} lose {_hours(found.lost_gpu_hours)}"
    ]
    if found.worst_share is not None:
        who = "the slowest rank" if found.num_worst == 1 else f"the slowest {found.num_worst} ranks"
        parts.append(f"{who} at the pace of its peers would win back {percent(found.worst_share, 0)} of that (M_w)")
    return "; ".join(parts).replace("ranks at its", "ranks at their")


def _hours(hours: float) -> str:
    return f"{hours:,.2f} GPU hours" if hours >= 0.1 else f"{3600 * hours:,.3g} GPU seconds"


def slowdown_blocks(found: JobSlowdown, width: int, top: int = _TOP) -> list[RenderableType]:
    """S, its causes, and the ranks, stages and operations that make it; at most `top` rows of each."""
    style = "" if found.is_trusted else WARNING
    head = Group(
        section("How much slow ranks cost"),
        Text(summary_line(found), style=style),
        Text(lost_line(found), style=DIM),
    )
    blocks: list[RenderableType] = [head]
    if found.causes:
        rows = [_cause_cells(cause, found) for cause in found.causes[:top]]
        blocks.append(
            Group(
                section("Causes", "saved: share of a step, if only this is repaired"),
                table(CAUSE_HEADS, rows, width, left=("cause", "whose"), bold=0),
                *(Text(clean(f"{cause.kind}: {cause.sentence}"), style=DIM) for cause in found.causes[1:top]),
            )
        )
    for title, heads, lines in _tables(found, top):
        if lines:
            blocks.append(Group(section(title), table(heads, lines, width, left=heads[:1])))
    return blocks


CAUSE_HEADS = ("cause", "whose", "saved", "share", "since step")


def _cause_cells(cause: Cause, found: JobSlowdown) -> list[str]:
    names = dict(found.workers.select("rank", "name").iter_rows())
    whose = [clean(names.get(rank, f"rank {rank}")) for rank in cause.ranks[:2]] or [
        f"stage {stage}" for stage in cause.stages[:2]
    ]
    more = max(len(cause.ranks), len(cause.stages)) - len(whose)
    text = ", ".join(whose) + (f" +{more}" if more > 0 and whose else "")
    since = str(cause.first_step) if cause.first_step is not None else ""
    return [cause.kind, text or "many", duration(max(0, cause.saved_ns)), percent(max(0.0, cause.share)), since]


def _tables(found: JobSlowdown, top: int) -> list[tuple[str, Sequence[str], list[list[str]]]]:
    """Title, heads and cells of ranks, stages and operations with the most of S."""

    def worst(frame: pl.DataFrame) -> list[dict[str, Any]]:
        return frame.filter(pl.col("slowdown") >= _LITTLE).sort("slowdown", descending=True).head(top).to_dicts()

    ranks = [
        [
            clean(row["name"]),
            f"{'≤ ' * row['is_bound']}{row['slowdown']:.3f}",
            f"{row['compute_ratio']:.2f}×",
            _saving(row["saved_ns"]),
        ]
        for row in worst(found.workers)
    ]
    stages = [
        [f"stage {row['stage']}", f"{row['slowdown']:.3f}", f"{row['ratio']:.2f}×", _saving(row["saved_ns"])]
        for row in found.stages.iter_rows(named=True)
    ]
    unit = unit_for(max([row["time_ns"] for row in worst(found.types)], default=0))
    types = [
        [clean(row["type"]), row["pace"], f"{row['slowdown']:.3f}", unit(row["time_ns"])] for row in worst(found.types)
    ]
    return [
        ("By rank", ("rank", "S_w", "computes", "saves if ideal"), ranks),
        ("By stage", ("stage", "S_s", "computes", "saves if ideal"), stages),
        ("By type of operation", ("type", "pace", "S_t", f"{unit.name} per step"), types),
    ]


def _saving(saved_ns: int | None) -> str:
    return "" if saved_ns is None else duration(max(0, saved_ns))


def slowdown_markdown(found: JobSlowdown, top: int = _TOP) -> str:
    """The same as Markdown."""
    parts = [f"{markdown_text(summary_line(found))}. {markdown_text(lost_line(found))}."]
    if found.causes:
        cells = [[cell or NOTHING for cell in _cause_cells(each, found)] for each in found.causes[:top]]
        parts.append(markdown_table(CAUSE_HEADS, cells))
        parts.append("\n".join(f"- {markdown_text(cause.sentence)}" for cause in found.causes[:top]))
    for title, heads, lines in _tables(found, top):
        if lines:
            parts.append(f"### {title}\n\n{markdown_table(heads, lines)}")
    return "\n\n".join(parts)
