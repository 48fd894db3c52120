"""HTML: the lane picture of a rank as a page of its own, which zooms."""

from __future__ import annotations

from weftrace.render.lane_types import LanePicture
from weftrace.render.packed import packed_rows
from weftrace.render.page import render_page
from weftrace.report.document_types import RankDocument
from weftrace.report.render.page import HOME
from weftrace.report.render.words import TERMS
from weftrace.version import __version__

ENTRY = "lanes_page"
#: What the picture and its labels name.
_TERMS = ("span", "hidden", "exposed", "idle", "busy", "sms", "idle_unrecorded")


def render_lanes_html(rank: RankDocument, headline: str, *, start_ns: int = 0, end_ns: int | None = None) -> str:
    """One self-contained page, as text. start_ns, end_ns: the part of the span that it shows at first; the rest is a
    zoom away."""
    picture = {key: rank[key] for key in LanePicture.__annotations__ if key in rank}  # type: ignore[literal-required]
    view = [start_ns, rank["span_ns"] if end_ns is None else end_ns]
    return render_page(
        "lanes.html",
        home=HOME,
        entry=ENTRY,
        styles=["render/page.css", "render/charts.css"],
        blocks=[("weftrace-lanes", packed_rows({"picture": picture, "view_ns": view}))],
        terms={term: TERMS[term] for term in _TERMS},
        title=rank["path"],
        headline=headline,
        version=__version__,
    )
