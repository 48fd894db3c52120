"""HTML of advice: a critical path, with what would be saved, and a what-if, before and after on one scale of time."""

from __future__ import annotations

from typing import TypedDict

import polars as pl

from weftrace.advice.critical_paths import CriticalPath
from weftrace.advice.document import CriticalPathDocument, CriticalPathReport
from weftrace.advice.render.colours import CLASS_ROLES
from weftrace.advice.render.picture import MAX_NAME, MAX_OPS, PathPicture, path_picture
from weftrace.advice.render.words import (
    PATH_TERMS,
    SOURCE_WORDS,
    WHAT_IF_TERMS,
    doubt_words,
    kept_words,
    replay_words,
    weakest_words,
)
from weftrace.advice.whatif_document import SensitivityDocument, SensitivityReport, WhatIfDocument, WhatIfReport
from weftrace.render.page import render_page

#: The package that holds the pages' templates and static files.
HOME = "weftrace.advice.render"
STYLES = ("render/page.css", "render/charts.css", "render/path.css")

#: Rows of a table that a page holds at most, those of most time first.
MAX_ROWS = 400
#: Waits that it lists, the least sure first.
MAX_WAITS = 200


class WaitRow(TypedDict):
    """A wait on the path that is not certain. at_ns: when the op that waited started, from the first on a device."""

    name: str
    waited_for: str
    source: str
    votes_for: int | None
    votes_against: int | None
    confidence: float
    at_ns: int


class Told(TypedDict):
    """What is said of the replay, of why it is not to be trusted, and of the wait of which we are least sure."""

    replay: str
    doubts: str
    kept: str
    weakest: str


class PathBlock(TypedDict):
    """A critical path as a page holds it. picture: None of one that was read from a file, which holds no ops.

    document: without its parts, and of long tables the first rows. roles: class -> colour. waits: those on the path
    that are not certain, the least sure first.
    """

    document: CriticalPathDocument
    told: Told
    roles: dict[str, str]
    picture: PathPicture | None
    waits: list[WaitRow]
    num_waits: int
    sensitivity: SensitivityDocument | None


class WhatIfBlock(TypedDict):
    """A what-if as its page holds it. before, after: None of one that was read from a file."""

    document: WhatIfDocument
    told: Told
    roles: dict[str, str]
    before: PathPicture | None
    after: PathPicture | None


class SensitivityBlock(TypedDict):
    """A sensitivity as its page holds it."""

    document: SensitivityDocument
    told: Told


def render_path_html(report: CriticalPathReport, sensitivity: SensitivityReport | None = None) -> str:
    """One self-contained page of a critical path, as text. sensitivity: of the same plan."""
    return render_page(
        "path.html",
        home=HOME,
        entry="path",
        styles=STYLES,
        blocks=[("weftrace-path", path_block(report, sensitivity))],
        terms={**PATH_TERMS, **WHAT_IF_TERMS},
        title=report.document["source"],
        headline=report.document["headline"],
        version=report.document["weftrace"],
    )


def render_what_if_html(report: WhatIfReport) -> str:
    """One self-contained page of a what-if, as text."""
    document, found = report.document, report.found
    if found is not None and (found.before.parts.is_empty() or found.after.parts.is_empty()):
        found = None
    told: Told = {**_replay(document), "weakest": weakest_words(document["weakest"])}
    block: WhatIfBlock = {
        "document": document,
        "told": told,
        "roles": dict(CLASS_ROLES),
        "before": None if found is None else path_picture(found.before, max_ops=MAX_OPS // 2),
        "after": None if found is None else path_picture(found.after, before=found.before, max_ops=MAX_OPS // 2),
    }
    return render_page(
        "what_if.html",
        home=HOME,
        entry="what_if",
        styles=STYLES,
        blocks=[("weftrace-what-if", block)],
        terms={**PATH_TERMS, **WHAT_IF_TERMS},
        title=document["source"],
        headline=document["headline"],
        version=document["weftrace"],
    )


def render_sensitivity_html(report: SensitivityReport) -> str:
    """One self-contained page of a sensitivity and its curves, as text."""
    document = report.document
    told: Told = {**_replay(document), "weakest": ""}
    block: SensitivityBlock = {"document": document, "told": told}
    return render_page(
        "sensitivity.html",
        home=HOME,
        entry="sensitivity",
        styles=STYLES,
        blocks=[("weftrace-sensitivity", block)],
        terms=WHAT_IF_TERMS,
        title=document["source"],
        headline=document["headline"],
        version=document["weftrace"],
    )


def path_block(
    report: CriticalPathReport, sensitivity: SensitivityReport | None = None, *, max_ops: int = MAX_OPS
) -> PathBlock:
    """What a page that shows a critical path holds of it."""
    document, path = report.document, report.path
    if path is not None and path.parts.is_empty():
        path = None  # nothing takes any time: there is nothing to draw
    unsure = pl.DataFrame() if path is None else path.path.filter(pl.col("confidence") < 1)
    return {
        "document": _shortened(document),
        "told": {**_replay(document), "weakest": weakest_words(document["weakest"])},
        "roles": dict(CLASS_ROLES),
        "picture": None if path is None else path_picture(path, max_ops=max_ops),
        "waits": [] if path is None else _waits(unsure, path),
        "num_waits": unsure.height,
        "sensitivity": None if sensitivity is None else sensitivity.document,
    }


def _replay(document: CriticalPathDocument | WhatIfDocument | SensitivityDocument) -> Told:
    kept = kept_words(document["kept"], document["waits"])
    replay = document["replay"]
    return {"replay": replay_words(replay), "doubts": doubt_words(replay), "kept": kept, "weakest": ""}


def _shortened(document: CriticalPathDocument) -> CriticalPathDocument:
    """Without what the picture holds, and with names and tables that fit a page."""
    short = {**document, "parts": {}}
    for key in ("by_phase", "by_family", "by_kernel"):
        rows = document[key][:MAX_ROWS]
        short[key] = [{**row, "name": row["name"][:MAX_NAME]} for row in rows]
    return short  # type: ignore[return-value]


def _waits(unsure: pl.DataFrame, path: CriticalPath) -> list[WaitRow]:
    names = path.times.plan.ops.get_column("name").cast(pl.String).str.slice(0, MAX_NAME)
    begin = int(path.parts.item(0, "from_ns"))
    unsure = unsure.sort("confidence", maintain_order=True).head(MAX_WAITS)
    rows = unsure.select(
        pl.col("name").cast(pl.String).str.slice(0, MAX_NAME), pl.col("source").replace(SOURCE_WORDS), "votes_for",
        "votes_against", "confidence", waited_for=names.gather(unsure.get_column("cause")),
        at_ns=pl.col("start_ns") - begin,
    )  # fmt: skip
    return rows.to_dicts()  # type: ignore[return-value]
