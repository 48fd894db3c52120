"""The report to paste and to compute with: Markdown of its headline, spans and phases, and the kernels as CSV."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from weftrace.analysis.findings import AdviceReport
from weftrace.analysis.job_slowdown import JobSlowdown
from weftrace.analysis.kernel_times import KernelRow
from weftrace.analysis.module_times import CodeNode
from weftrace.files.columns import frame_schema
from weftrace.files.plain_text import csv_of_rows
from weftrace.files.values import from_document
from weftrace.render.findings_parts import head_markdown
from weftrace.render.markdown import markdown_table, markdown_text
from weftrace.render.slowdown_parts import slowdown_markdown
from weftrace.report.document_types import Block, CodeDocument, LatenessDocument, RankDocument, ReportDocument
from weftrace.report.render.idle_words import cause_name
from weftrace.report.render.parts import PARTS, rank_name, several_devices
from weftrace.report.render.terminal_bandwidth import bandwidth_lines, bandwidth_notes
from weftrace.report.render.terminal_code import tree_order
from weftrace.report.render.terminal_efficiency import parts_line, shape_lines
from weftrace.report.render.terminal_quality import concerns
from weftrace.report.render.words import OUTSIDE_CODE
from weftrace.report.sentences.idle_sentence import plain_name
from weftrace.units import duration, percent

_MAX_PHASES = 20
_MAX_RANKS = 64
_MAX_CODE = 20
_MAX_CAUSES = 10
_MAX_BANDWIDTHS = 10
_KERNEL_COLUMNS = tuple(name for name in frame_schema(KernelRow) if name != "name")
_CODE: tuple[tuple[str, Literal["modules", "lines"]], ...] = (("module", "modules"), ("line", "lines"))
_CODE_COLUMNS = tuple(name for name in frame_schema(CodeNode) if name not in ("name", "parent", "num_members"))


def to_markdown(document: ReportDocument) -> str:
    """A short report: the headline, a row a rank that adds up to its span, lateness, and of the longest rank why its
    device waited, how efficient its operators are, its phases and, where they were asked for, its time by module and by
    function."""
    parts = [
        f"**{markdown_text(document['headline'])}**",
        f"weftrace {document['weftrace']} of {markdown_text(document['source'])}",
    ]
    if advised := document.get("advice"):
        parts += filter(None, [head_markdown(from_document(AdviceReport, advised, what="advice"))])
    ranks = sorted(document["ranks"], key=lambda rank: -rank["span_ns"])
    if ranks:
        heads = ("rank", "span", *(name for _, name, _ in PARTS), "communication hidden", "")
        parts.append(_table(heads, (_account(rank, with_device=several_devices(ranks)) for rank in ranks)))
        if replayed := document.get("slowdown"):
            parts.append(slowdown_markdown(from_document(JobSlowdown, replayed, what="slowdown"), top=5))
        if document["lateness"]:
            parts += ["Waiting for late ranks in collectives:", _lateness(document["lateness"])]
        if len(ranks) > 1 and (found := document.get("bandwidth")) and found["rows"]:
            heads, lines = bandwidth_lines(found, _MAX_BANDWIDTHS)
            parts += ["Bandwidth of collectives, with and without waiting:", _table(heads, lines)]
            parts += [f"- {markdown_text(note)}" for note in bandwidth_notes(found, len(lines))]
        first = markdown_text(rank_name(ranks[0], with_device=several_devices(ranks)))
        if "idle_account" in ranks[0] and ranks[0]["basis"] != "ranges" and ranks[0]["idle_ns"]:
            parts += [f"Why the device of {first} waited:", _waits(ranks[0]["idle_account"])]
        if (efficiency := ranks[0].get("efficiency")) and efficiency["num_rated"]:
            heads, lines = shape_lines(efficiency)
            known = f"Device time of {first}: {parts_line(efficiency['parts'])}."
            parts += [markdown_text(efficiency["headline"]), markdown_text(known), _table(heads, lines)]
        if ranks[0]["phase_means"]:
            parts += [f"Phases of {first}, means:", _phases(ranks[0])]
        for by, key in _CODE:
            if key in ranks[0]:
                parts += [f"Time by {by} of {first}:", _code(ranks[0][key], by, ranks[0]["serial_ns"])]
    parts += [
        f"- not used: {markdown_text(failure['path'])}: {markdown_text(failure['error'])}"
        for failure in document["failures"]
    ]
    parts += [f"- {markdown_text(note)}" for note in document["notes"]]
    return "\n\n".join(parts) + "\n"


def kernels_csv(document: ReportDocument) -> str:
    """Every kernel of every rank, a row each: who ran it, then the fields of `kernels` in the report's JSON.

    Of a job, those ranks that its sums hold: a column can be added up.
    """
    return csv_of_rows(
        ("rank", "device", "name", *_KERNEL_COLUMNS),
        (
            (rank["rank"], rank["device"], kernel["name"], *map(dict(kernel).get, _KERNEL_COLUMNS))
            for rank in document["ranks"]
            if rank["apart"] is None
            for kernel in rank["kernels"]
        ),
    )


def code_csv(document: ReportDocument) -> str:
    """Time by module and by function, a row a place in the tree: who ran it, by what, the path to it, and the fields of
    `nodes` in the report's JSON. The path's parts are joined by " > "."""
    lines = []
    for rank in document["ranks"]:
        for by, code in ((by, rank[key]) for by, key in _CODE if key in rank):
            paths: list[str] = []
            for node in (*code["nodes"], code["outside"]):
                above = node["parent"]
                paths.append((f"{paths[above]} > " if above is not None else "") + node["name"])
                lines.append((rank["rank"], rank["device"], by, paths[-1], *map(dict(node).get, _CODE_COLUMNS)))
    return csv_of_rows(("rank", "device", "by", "path", *_CODE_COLUMNS), lines)


def has_code(document: ReportDocument) -> bool:
    """Whether some rank has time by module or by function."""
    return any(key in rank for rank in document["ranks"] for _, key in _CODE)


def _account(rank: RankDocument, *, with_device: bool) -> list[str]:
    span = rank["span_ns"]
    shares = (f"{duration(rank[key])} ({percent(rank[key] / span)})" if span else "–" for key, _, _ in PARTS)
    summary = "; ".join(["not counted in the job"] * (rank["apart"] is not None) + concerns(rank))
    return [
        rank_name(rank, with_device=with_device),
        duration(span),
        *shares,
        percent(rank["hidden_fraction"]),
        summary,
    ]


def _lateness(found: LatenessDocument) -> str:
    """A row a rank, with whom most waiting began first."""
    ranks = sorted(found["ranks"], key=lambda rank: -rank["origin_ns"])[:_MAX_RANKS]
    lines = [
        [rank["name"], duration(rank["origin_ns"]), duration(rank["caused_ns"]), duration(rank["suffered_ns"]),
         f"{rank['num_last']:,} of {rank['num_matched']:,}"]
        for rank in ranks
    ]  # fmt: skip
    return _table(("rank", "caused by it", "late by", "waited", "entered last"), lines)


def _waits(account: Block) -> str:
    lines = [
        [cause_name(row["cause"]), duration(row["ns"]), percent(row["share"]), f"{row['num_gaps']:,}",
         plain_name(row["name"] or row["child"], with_file=True)]
        for row in account["causes"][:_MAX_CAUSES]
    ]  # fmt: skip
    return _table(("cause", "time", "of idle", "gaps", "where"), lines)


def _phases(rank: RankDocument) -> str:
    longest = sorted(rank["phase_means"], key=lambda row: -row["mean_busy_ns"] * row["count"])[:_MAX_PHASES]
    lines = []
    for row in (row for row in rank["phase_means"] if row in longest):
        times = (row["mean_busy_ns"], row["mean_hidden_ns"], row["mean_exposed_ns"])
        summary = (
            [duration(time_ns) for time_ns in times] if row["lane"] == "communication" else [duration(times[0]), "", ""]
        )
        lines.append([row["name"], row["lane"], f"{row['count']:,}", *summary])
    return _table(("phase", "lane", "count", "busy", "hidden", "exposed"), lines)


def _code(code: CodeDocument, by: str, serial_ns: int) -> str:
    """Modules as a tree, indented by dots; functions by their own time. Then what ran outside of them all."""
    nodes = code["folded"]
    if by == "module":
        order = tree_order(nodes, _MAX_CODE)
    else:
        longest = sorted(range(len(nodes)), key=lambda at: (-nodes[at]["self_ns"], at))
        order = [(at, 0) for at in longest[:_MAX_CODE]]
    rows = [("· " * depth + nodes[at]["name"], nodes[at]) for at, depth in order] + [(OUTSIDE_CODE, code["outside"])]
    columns: tuple[Literal["total_ns", "self_ns", "backward_ns", "exposed_ns"], ...]
    columns = ("total_ns", "self_ns", "backward_ns", "exposed_ns")
    lines = [
        [name + (f" ×{row['num_members']:,}" if row["num_members"] > 1 else ""),
         *(duration(row[column]) for column in columns), percent(row["total_ns"] / (serial_ns or 1))]
        for name, row in rows
    ]  # fmt: skip
    left = [f"… and {len(nodes) - len(order):,} more rows in the JSON report"] * (len(nodes) > len(order))
    heads = (by, "total", "own", "backward", "exposed", "share of the work")
    return "\n\n".join([_table(heads, lines), *left])


def _table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    return markdown_table(heads, lines, are_numbers=[False] * len(heads))
