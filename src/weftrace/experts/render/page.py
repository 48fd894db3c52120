"""HTML of a placement and of a replay."""

from __future__ import annotations

from typing import Any, TypedDict

import polars as pl

from weftrace.experts.document import PlacementReport
from weftrace.experts.render.words import (
    BINDING_MEANINGS,
    PLACEMENT_TERMS,
    REPLAY_TERMS,
    page_words,
    placement_headline,
    replay_headline,
    row_words,
)
from weftrace.experts.replays.document import ReplayReport
from weftrace.experts.replays.replay import ReplayRow
from weftrace.files.values import to_document
from weftrace.render.page import render_page, short_numbers
from weftrace.version import __version__

#: The package that holds the pages' templates and static files.
HOME = "weftrace.experts.render"
STYLES = ("render/page.css", "render/charts.css", "experts.css")

#: Significant digits of the loads and shares that a page holds; the document has them all.
DIGITS = 6


class MoveColumns(TypedDict):
    """The list of moves as the page holds it: lists of equal length."""

    round: list[int]
    layer: list[int]
    expert: list[int]
    slot: list[int]
    from_slot: list[int]


def render_placement_html(report: PlacementReport) -> str:
    """One self-contained page of a placement, as text. Raises ValueError for a NaN or an infinity, which JSON cannot
    hold."""
    words = {"terms": PLACEMENT_TERMS, "headline": placement_headline(report)}
    return _page("placement", report.source, placement_block(report), **words)


def render_replay_html(report: ReplayReport) -> str:
    """One self-contained page of a replay, as text; raises as `render_placement_html`."""
    words = {"terms": REPLAY_TERMS, "headline": replay_headline(report), "tables": {"rows": ReplayRow}}
    return _page("replay", report.source, replay_block(report), **words)


def _page(name: str, source: str, block: dict[str, Any], **words: Any) -> str:
    return render_page(
        f"{name}.html", home=HOME, entry=name, styles=STYLES, blocks=[(f"weftrace-{name}", block)],
        title=source or name, version=__version__, **words,
    )  # fmt: skip


def placement_block(report: PlacementReport) -> dict[str, Any]:
    """The document as the page holds it: loads and shares of `DIGITS` digits, the list of moves as columns, meanings.

    A move's layer is its place among the layers. A slot names its GPU, so the moves are listed without the GPUs:
    {"round": [...], "layer": [...], "expert": [...], "slot": [...], "from_slot": [...]}. "meanings" says in words what
    may hold a layer back; "words" what the two placements and their loads are called.
    """
    document = to_document(report)
    for loads in filter(None, document["gpu_load"].values()):
        loads["load"] = short_numbers(loads["load"], DIGITS)
    if report.moves is not None:
        place = pl.col("layer").replace(report.layers, range(report.num_layers))
        table = report.moves.table.select(*MoveColumns.__annotations__).with_columns(place)
        document["moves"]["list"] = table.to_dict(as_series=False)
    return {
        **document,
        **{name: short_numbers(document[name], DIGITS) for name in ("share_of_slot", "loads")},
        "meanings": dict(BINDING_MEANINGS),
        "words": page_words(report),
    }


def replay_block(report: ReplayReport) -> dict[str, Any]:
    """The document as the page holds it: "names" are its rows in words."""
    return {**to_document(report), "names": [row_words(row) for row in report.rows]}
