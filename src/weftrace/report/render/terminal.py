"""The report in a terminal: where the step went, what hides what, what is left to save, and how far to trust it.

Drawn from the report document (schema weftrace.report/1) alone, so that a saved JSON prints the same. What the data
does not hold is left out; what is partial is said in a frame above the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.text import Text

from weftrace.analysis.findings import AdviceReport
from weftrace.analysis.job_slowdown import JobSlowdown
from weftrace.files.values import from_document
from weftrace.render.console_parts import BOLD, ERROR, WARNING, frame, print_blocks, section, table
from weftrace.render.console_text import clean, joined
from weftrace.render.findings_parts import head_block
from weftrace.render.slowdown_parts import slowdown_blocks
from weftrace.report.document_types import RankDocument, ReportDocument
from weftrace.report.render.parts import ACCOUNT_HEADS, ACCOUNT_KEYS, rank_name, several_devices
from weftrace.report.render.terminal_bandwidth import bandwidth_blocks
from weftrace.report.render.terminal_lateness import lateness_blocks
from weftrace.report.render.terminal_quality import concerns
from weftrace.report.render.terminal_rank import hidden_share, rank_blocks
from weftrace.report.render.terminal_slow_work import slow_work_block
from weftrace.units import counted, unit_for

MAX_WIDTH = 140
MAX_RANKS = 24
MAX_FAILURES = 10


def print_report(document: ReportDocument, console: Console) -> None:
    """Print a report document: the headline, its quality, the ranks of a job, and one rank in full.

    Of several ranks the late one is shown in full, for which the others waited most; where none is late, the one that
    computes longest against its peers, if one stands out; else the one with the longest span. `print_rank` prints
    another.
    Width: all of the console's up to 140 columns.
    """
    width = min(console.width, MAX_WIDTH)
    ranks = document["ranks"]
    blocks: list[RenderableType] = [*_opening(document)]
    if ranks:
        chosen, why = _in_full(document)
        blocks += _job(document, chosen, why, width)
        blocks += rank_blocks(chosen, width)
        if len(ranks) == 1:  # of a job it stands beside what all ranks do
            blocks += bandwidth_blocks(document, width)
    print_blocks(blocks, console, width)


def print_rank(rank: RankDocument, console: Console) -> None:
    """Print one member of `ranks` of a report document in full."""
    width = min(console.width, MAX_WIDTH)
    print_blocks(rank_blocks(rank, width), console, width)


def _opening(document: ReportDocument) -> list[RenderableType]:
    title = joined([Text("weftrace", style=BOLD), clean(document["source"]), _scope(document)], " · ")
    blocks: list[RenderableType] = [title, Text(clean(document["headline"]), style=BOLD)]
    failures = document["failures"]
    if failures:
        shown = [joined([clean(f["path"]), ": ", clean(f["error"])]) for f in failures[:MAX_FAILURES]]
        if len(failures) > MAX_FAILURES:
            shown.append(Text(f"… and {len(failures) - MAX_FAILURES:,} more, listed in the JSON report"))
        head = f"{len(failures):,} of {len(failures) + len(document['ranks']):,} files could not be used"
        blocks.append(frame(head, shown, ERROR))
    if advised := document.get("advice"):
        first = head_block(from_document(AdviceReport, advised, what="advice"))
        blocks += [] if first is None else [first]
    if notes := document["notes"]:
        blocks.append(frame("Incomplete job", [Text(clean(note)) for note in notes], WARNING))
    return blocks


def _counted(ranks: Sequence[RankDocument]) -> list[RankDocument]:
    """Those that are in the sums of the job."""
    return [rank for rank in ranks if rank["apart"] is None]


def _scope(document: ReportDocument) -> str:
    ranks, world = _counted(document["ranks"]), document["world_size"]
    if len(ranks) != 1:
        number = len({(rank["rank"], rank["path"]) for rank in ranks})
        if several_devices(ranks):
            of_ranks = f"{number:,} of {world:,} ranks" if world else counted(number, "file")
            return f"{len(ranks):,} devices of {of_ranks}"
        return f"{len(ranks):,} of {world:,} ranks" if world else f"{len(ranks):,} ranks"
    rank = ranks[0]
    who = "rank unknown" if rank["rank"] is None else f"rank {rank['rank']}"
    return f"{who} of {world:,}" if world else who


def _in_full(document: ReportDocument) -> tuple[RankDocument, str]:
    """The rank to show in full, and why it."""
    if (late := _late(document)) is not None:
        return late, "because the others waited for it most"
    slow = [rank["ratio"] if rank["is_slow"] else 0 for rank in (document["slow_work"] or {"ranks": []})["ranks"]]
    if any(slow):
        return _counted(document["ranks"])[slow.index(max(slow))], "because it computes longest compared with its peers"
    return max(_counted(document["ranks"]), key=lambda rank: rank["span_ns"]), "because it has the longest span"


def _late(document: ReportDocument) -> RankDocument | None:
    lateness = document["lateness"]
    late = None if lateness is None else lateness["late"]
    return None if late is None else _counted(document["ranks"])[late]


def _job(document: ReportDocument, chosen: RankDocument, why: str, width: int) -> list[RenderableType]:
    ranks = document["ranks"]
    if len(ranks) < 2:
        return []
    blocks: list[RenderableType] = [_rank_table(document, width)]
    replayed = document.get("slowdown")
    if replayed is not None:
        blocks += slowdown_blocks(from_document(JobSlowdown, replayed, what="slowdown"), width, top=5)
    blocks += lateness_blocks(document, width)
    blocks += bandwidth_blocks(document, width)
    if replayed is None:  # which says the same, and what it costs
        blocks += slow_work_block(document, width)
    partial = [rank for rank in ranks if rank is not chosen and concerns(rank)]
    if partial:
        lines = [joined([Text(rank_name(rank), style=BOLD), ": ", "; ".join(concerns(rank))]) for rank in partial]
        left = len(lines) - MAX_FAILURES
        more = [Text(f"… and {left:,} more ranks, listed in the JSON report")] if left > 0 else []
        blocks.append(frame("Other ranks with partial data", [*lines[:MAX_FAILURES], *more], WARNING))
    blocks.append(
        Text(
            f"Details: {rank_name(chosen, with_device=several_devices(ranks))}, {why}.",
            style=BOLD,
        )
    )
    return blocks


def _rank_table(document: ReportDocument, width: int) -> RenderableType:
    ranks, late = document["ranks"], _late(document)
    ordered = sorted(ranks, key=lambda rank: (rank["apart"] is not None, -rank["span_ns"]))
    fastest_kept = 3 if len(ordered) > MAX_RANKS else 0
    shown = ordered if not fastest_kept else ordered[: MAX_RANKS - fastest_kept]
    unit = unit_for(ordered[0]["span_ns"])
    rows: list[list[str]] = []
    for place, rank in enumerate(shown + (ordered[-fastest_kept:] if fastest_kept else [])):
        if fastest_kept and place == len(shown):
            rows.append(["…", *[""] * (len(ACCOUNT_KEYS) + 1), f"{len(ordered) - MAX_RANKS:,} more"])
        name = rank_name(rank, with_device=several_devices(ranks)).removeprefix("rank ")
        marks = ["longest"] * (place == 0) + ["partial"] * bool(concerns(rank))
        marks += ["late"] * (rank is late)
        marks += ["apart"] * (rank["apart"] is not None)
        rows.append([name, *(unit(rank[key]) for key in ACCOUNT_KEYS), hidden_share(rank), ", ".join(marks)])
    heads = ("rank", f"span {unit.name}", *ACCOUNT_HEADS, "")
    gap = 2 if _fits(heads, rows, width, 2) else 1
    if not _fits(heads, rows, width, gap):  # a mark gives way before a number; what is partial stands in a frame below
        rows = [[*row[:-1], row[-1].split(", ")[0]] for row in rows]
    body = table(heads, rows, width, left=("rank", ""), bold=0, gap=gap)
    counted_ranks = _counted(ordered)
    longest, shortest = counted_ranks[0]["span_ns"], counted_ranks[-1]["span_ns"]
    note = f"longest span first; it takes {longest / shortest:.2f}× the time of the shortest" if shortest else ""
    return Group(section("Ranks", note), body)


def _fits(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int, gap: int) -> bool:
    return sum(max(map(cell_len, column)) + gap for column in zip(heads, *rows, strict=True)) <= width
