"""HTML of the documents about experts: a placement (`weftrace.placement/1`) and a replay (`weftrace.replay/1`)."""

from __future__ import annotations

from typing import Any, TypedDict

from weftrace.experts.document import MoveSummary, PlacementDocument
from weftrace.experts.render.words import (
    BINDING_MEANINGS,
    PLACEMENT_TERMS,
    REPLAY_TERMS,
    loads_summary,
    page_words,
    placement_headline,
    replay_headline,
    row_words,
)
from weftrace.experts.replays.document import ReplayDocument
from weftrace.render.page import render_page, short_numbers

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


def render_placement_html(document: PlacementDocument) -> str:
    """One self-contained page for a placement document (`weftrace.placement/1`), as text.

    Raises ValueError where the document holds a NaN or an infinity, which JSON cannot.
    """
    return render_page(
        "placement.html",
        home=HOME,
        entry="placement",
        styles=STYLES,
        blocks=[("weftrace-placement", placement_block(document))],
        terms=PLACEMENT_TERMS,
        title=document["source"] or "placement",
        headline=placement_headline(document),
        version=document["weftrace"],
    )


def render_replay_html(document: ReplayDocument) -> str:
    """One self-contained page for a replay document (`weftrace.replay/1`), as text.

    Raises ValueError where the document holds a NaN or an infinity, which JSON cannot.
    """
    return render_page(
        "replay.html",
        home=HOME,
        entry="replay",
        styles=STYLES,
        blocks=[("weftrace-replay", replay_block(document))],
        terms=REPLAY_TERMS,
        title=document["source"] or "replay",
        headline=replay_headline(document),
        version=document["weftrace"],
    )


def placement_block(document: PlacementDocument) -> dict[str, Any]:
    """The document as the page holds it: loads and shares of `DIGITS` digits, the list of moves as columns, meanings.

    A move's layer is its place among the layers. A slot names its GPU, so the moves are told without the GPUs:
    {"round": [...], "layer": [...], "expert": [...], "slot": [...], "from_slot": [...]}. "meanings" says in words what
    may hold a layer back; "words" what the two placements and their loads are called.
    """
    moves = document["moves"]
    loads = {
        which: {**summary, "load": short_numbers(summary["load"], DIGITS)}
        for which, summary in loads_summary(document).items()
    }
    return {
        **document,
        "share_of_slot": short_numbers(document["share_of_slot"], DIGITS),
        "loads": short_numbers(document["loads"], DIGITS),
        "gpu_load": {"before": None, **loads},
        "moves": None if moves is None else {**moves, "list": _columns(moves["list"], document["layers"])},
        "meanings": dict(BINDING_MEANINGS),
        "words": page_words(document),
    }


def _columns(moves: list[MoveSummary], layers: list[int]) -> MoveColumns:
    place = {number: at for at, number in enumerate(layers)}
    return {
        "round": [move["round"] for move in moves],
        "layer": [place[move["layer"]] for move in moves],
        "expert": [move["expert"] for move in moves],
        "slot": [move["slot"] for move in moves],
        "from_slot": [move["from_slot"] for move in moves],
    }


def replay_block(document: ReplayDocument) -> dict[str, Any]:
    """The document as the page holds it: "names" are its rows in words."""
    return {**document, "names": [row_words(row) for row in document["rows"]]}
