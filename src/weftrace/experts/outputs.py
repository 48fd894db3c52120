"""What can be done with a placement and a replay: see `weftrace.outputs`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import polars as pl

from weftrace.errors import PlacementError
from weftrace.experts.build import PlacementReport, ReplayReport, replay_report, slot_table
from weftrace.experts.document import PLACEMENT_SCHEMA, PlacementDocument, placement_of
from weftrace.experts.placement import Placement
from weftrace.experts.render import figures
from weftrace.experts.render.page import render_placement_html, render_replay_html
from weftrace.experts.render.terminal import print_placement, print_placement_alone, print_replay
from weftrace.experts.replays.document import REPLAY_SCHEMA, ReplayDocument
from weftrace.experts.replays.replay import Replay
from weftrace.files.documents import document_as, need_lengths, need_positions
from weftrace.outputs import DOCUMENT_SUFFIXES, Output, adapter_for, text_writer

SCHEMAS = (PLACEMENT_SCHEMA, REPLAY_SCHEMA)


def _load_placement(document: Mapping[str, Any], what: str) -> PlacementReport:
    placement = placement_of(document, what=what)
    whole = document_as(document, PlacementDocument, schema=PLACEMENT_SCHEMA.schema, what=what)
    return PlacementReport(placement=placement, document=whole)


def _load_replay(document: Mapping[str, Any], what: str) -> ReplayReport:
    schema = REPLAY_SCHEMA.schema
    summary = document_as(document, ReplayDocument, schema=schema, what=what)
    best = summary["recommendation"]
    rows = {f"recommendation.{name}": best[name] for name in ("row", "baseline_row", "cheaper_row")}
    rows |= {f"series[{at}].row": series["row"] for at, series in enumerate(summary["series"])}
    need_positions(what, schema, len(summary["rows"]), **rows)
    for at, series in enumerate(summary["series"]):
        by_window = {f"series[{at}].{name}": series[name] for name in ("balancedness", "moved_fraction")}
        need_lengths(what, schema, summary["num_windows"], **by_window)
    return ReplayReport(document=summary)


def _page(render: Callable[[Any], str]) -> Callable[[Any, str], object]:
    return text_writer(lambda report: render(report.document))


def _csv(table: Callable[[Any], pl.DataFrame]) -> Callable[[Any, str], object]:
    return text_writer(lambda report: table(report).write_csv())


def _of_document(do: Callable[..., Any]) -> Callable[..., Any]:
    return lambda report, *others: do(report.document, *others)


PLACEMENT = Output(
    value=PlacementReport,
    schema=PLACEMENT_SCHEMA.schema,
    document=lambda report: report.document,
    load=_load_placement,
    show=_of_document(print_placement),
    save={".html": _page(render_placement_html), ".csv": _csv(slot_table)},
    figures={
        "gpu_load": _of_document(figures.figure_gpu_load),
        "balancedness": _of_document(figures.figure_balancedness),
        "moves": _of_document(figures.figure_moves),
    },
)

REPLAY = Output(
    value=ReplayReport,
    schema=REPLAY_SCHEMA.schema,
    document=lambda report: report.document,
    load=_load_replay,
    show=_of_document(print_replay),
    save={
        ".html": _page(render_replay_html),
        ".csv": _csv(lambda report: pl.DataFrame(report.document["rows"], infer_schema_length=None)),
    },
    figures={"replay": _of_document(figures.figure_replay)},
)


_REPLAY_ITSELF = adapter_for(Replay, REPLAY, replay_report)


def _needs_loads(placement: Placement, *others: object) -> NoReturn:
    raise PlacementError(
        "a placement alone does not say what it does to loads; put both together with "
        "weftrace.experts.placement_report(placement, loads), which is what can be saved and drawn"
    )


_PLACEMENT_ALONE = Output(
    value=Placement,
    show=print_placement_alone,
    save=dict.fromkeys((*PLACEMENT.save, *DOCUMENT_SUFFIXES), _needs_loads),
    figures=dict.fromkeys(PLACEMENT.figures, _needs_loads),
)

OUTPUTS = (PLACEMENT, REPLAY, _PLACEMENT_ALONE, _REPLAY_ITSELF)
