"""HTML: the report of a trace as one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from weftrace.analysis.efficiency import OperatorRateRow, ShapeRow, WindowRateRow
from weftrace.analysis.findings import AdviceReport
from weftrace.analysis.hidden_communication import CollectiveRow
from weftrace.analysis.kernel_times import FamilyRow, KernelRow, UnnamedRow
from weftrace.analysis.launch_delays import HostCallRow, HostStallRow
from weftrace.analysis.memory.use_of_memory import AliveRow
from weftrace.analysis.module_times import CodeNode
from weftrace.analysis.operator_times import OperatorRow
from weftrace.analysis.phase_times import PhaseMeanRow
from weftrace.analysis.rank_tables import TABLES, tables_terms
from weftrace.analysis.transfer_bandwidth import BandwidthRow
from weftrace.analysis.waiting.idle_account import IdleCauseRow, SeparatedRow
from weftrace.files.columns import Shown
from weftrace.files.values import from_document, to_document
from weftrace.render.configuration import configured_terms
from weftrace.render.findings_parts import FINDING_TERMS, finding_cards
from weftrace.render.packed import packed_rows
from weftrace.render.page import render_page
from weftrace.report import document_types as types
from weftrace.report.render.critical import path_terms
from weftrace.report.render.words import TERMS
from weftrace.report.timeline_types import TimelinePayload


class JobRankRow(types.LateRankDocument, types.WindowDocument):
    """A rank of a job: its span, and how late it was."""

    communication_ns: Annotated[int, Shown(term="communication")]


#: The page's own tables: name -> the type of its rows.
ROWS: dict[str, Any] = {
    "kernels": KernelRow, "families": FamilyRow, "unnamed": UnnamedRow, "operators": OperatorRow,
    "phases": PhaseMeanRow, "collectives": CollectiveRow, "steps": types.StepDocument, "blocked": HostCallRow,
    "stalls": HostStallRow, "idle": IdleCauseRow, "separated": SeparatedRow, "ranks": JobRankRow,
    "late-kinds": types.LateCollectiveDocument,
    "late-worst": types.WorstCollectiveDocument, "code": CodeNode,
    "bandwidth": BandwidthRow, "alive": AliveRow, "shapes": ShapeRow, "operator-rates": OperatorRateRow,
    "window-rates": WindowRateRow,
}  # fmt: skip
#: The package that holds the page's template and static files, and its first module.
HOME, ENTRY = "weftrace.report.render", "main"


#: Fields of a rank, of its account of idle time and of its lanes that only its own tables and pictures show: they are
#: read when the rank is opened.
DETAILS: dict[str, tuple[str, ...]] = {
    "rank": (
        "families", "collectives", "phases", "phase_means", "overlap_matrix", "kernels", "operators", "unnamed",
        "idle_causes", "efficiency", "launch", "configuration", "tables", "table_notes", "memory", "flops", "modules",
        "lines",
    ),
    "idle_account": ("causes", "operators", "host", "separated", "latency_ns"),
    "lane": ("boxes",),
}  # fmt: skip


class TimelineBlock(TimelinePayload):
    """A rank's timeline as the page holds it: shift_ns is how far its start is from the rank's."""

    shift_ns: int


def render_html(
    document: types.ReportDocument,
    timelines: Sequence[TimelinePayload | None],
    paths: Sequence[Mapping[str, Any] | None] = (),
) -> str:
    """One self-contained page for a report document, as text.

    document: the JSON report (docs/report-json.md).
    timelines: `timelines[i]` is the payload of `timeline_payload` for `document["ranks"][i]`; None, or a sequence that
        ends early, leaves a rank without its timeline, and the page says so.
    paths: likewise critical paths, of `path_blocks`; a rank without one has no tab for it.
    Raises ValueError where the document holds a NaN or an infinity, which JSON cannot.
    """
    advised = document.get("advice")
    shown = {**document, "details": DETAILS, "ranks": [_overview(rank) for rank in document["ranks"]]}
    shown.pop("advice", None)
    blocks: list[tuple[str, Mapping[str, Any]]] = [("weftrace-report", packed_rows(shown))]
    details = map(packed_rows, map(_details, document["ranks"]))
    blocks += [(f"weftrace-rank-{number}", each) for number, each in enumerate(details)]
    for number, (timeline, rank) in enumerate(zip(timelines, document["ranks"], strict=False)):
        if timeline is not None:
            # Times in the page count from the rank's start. Absolute nanoseconds do not fit a float64: joined here.
            shift_ns = timeline["start_ns"] - rank["start_ns"] if rank["start_ns"] is not None else 0
            blocks.append((f"weftrace-timeline-{number}", {**timeline, "shift_ns": shift_ns}))
    if advised is not None:
        zeros = {(rank["rank"], rank["device"]): rank["start_ns"] or 0 for rank in document["ranks"]}
        cards = finding_cards(from_document(AdviceReport, advised, what="advice"), zeros)
        blocks.append(("weftrace-advice", to_document(cards)))
    blocks += [(f"weftrace-path-{number}", path) for number, path in enumerate(paths) if path is not None]
    tables = {name for rank in document["ranks"] for name in rank.get("tables", {})}
    summary = {name for rank in document["ranks"] if "configuration" in rank for name in rank["configuration"]}
    return render_page(
        "page.html",
        home=HOME,
        entry=ENTRY,
        styles=[
            "render/page.css",
            "render/charts.css",
            "render/icicle.css",
            "render/path.css",
            "render/slowdown.css",
            "render/findings.css",
        ],
        blocks=blocks,
        tables=ROWS | {name: table.row for name, table in TABLES.items()},
        terms={
            **TERMS,
            **({} if advised is None else FINDING_TERMS),
            **tables_terms(tables),
            **(path_terms() if any(paths) else {}),
            **configured_terms(summary),
        },
        title=document["source"],
        headline=document["headline"],
        version=document["weftrace"],
    )


def _overview(rank: types.RankDocument) -> dict[str, Any]:
    """What is told of a rank beside others, and of the one that is open before its details are read."""
    own = _without(rank, (*DETAILS["rank"], "shares"))
    own["lanes"] = [_without(lane, DETAILS["lane"]) for lane in rank["lanes"]]
    return own | (
        {"idle_account": _without(rank["idle_account"], DETAILS["idle_account"])} if "idle_account" in rank else {}
    )


def _details(rank: types.RankDocument) -> dict[str, Any]:
    return {
        "rank": _only(rank, DETAILS["rank"]),
        "idle_account": _only(rank.get("idle_account", {}), DETAILS["idle_account"]),
        "lane": [_only(lane, DETAILS["lane"]) for lane in rank["lanes"]],
    }


def _without(value: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: each for name, each in value.items() if name not in names}


def _only(value: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: each for name, each in value.items() if name in names}
