"""HTML of simulated schedules, and the block of a page by which any page of the wing draws one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

from weftrace.files.columns import Shown
from weftrace.files.values import filled, to_document
from weftrace.pipeline.render.picture import Picture, PictureFacts, idle_share, picture_of
from weftrace.pipeline.render.words import PICTURE_TERMS, headline, held_words, left_out, memory_text, shape_text
from weftrace.pipeline.simulation import Simulation
from weftrace.render.page import render_page
from weftrace.version import __version__

#: The package that holds the pages' templates and static files.
HOME = "weftrace.pipeline.render"
STYLES = ("render/page.css", "render/charts.css", "pipeline.css")

#: Actions and ranks that a page holds of one schedule at most: 10 MB, and what fits a screen.
MAX_CELLS = 200_000
MAX_RANKS = 128


class CellColumns(TypedDict):
    """The actions of a picture as lists of equal length, by rank and in order of time; null where there is none."""

    kind: list[str]
    stage: list[int]
    micro_batch: list[int]
    back_stage: list[int | None]
    back_micro_batch: list[int | None]
    shade: list[int]
    back_shade: list[int | None]
    start_ns: list[int]
    end_ns: list[int]
    cause: list[int | None]


class PictureRank(TypedDict):
    """A row of a picture. cells: first and one after the last of its cells. time_ns, held: its memory curve."""

    rank: int
    busy_ns: int
    idle_ns: Annotated[int, Shown(term="idle")]
    idle_share: float
    warm_up_ns: Annotated[int, Shown("warm-up", term="warm_up")]
    steady_ns: Annotated[int, Shown(term="steady")]
    cool_down_ns: Annotated[int, Shown("cool-down", term="cool_down")]
    peak: Annotated[int, Shown("holds at most", term="held")]
    cells: list[int]
    time_ns: list[int]
    held: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureBlock(PictureFacts):
    """A simulated schedule as a page holds it, and what is said of it in words."""

    headline: str
    shape: str
    left_out: str
    memory_words: str
    held_words: str
    ranks: list[PictureRank]
    cells: CellColumns


class PageBlock(TypedDict):
    """What the page of simulated schedules holds."""

    pictures: list[PictureBlock]


def picture_block(simulation: Simulation, name: str | None = None) -> PictureBlock:
    """One simulation as `static/schedule_picture.js` draws it: what a page of this wing puts into its own block.

    Of a very large schedule it holds some ranks, evenly chosen, and says so. name: instead of the schedule's.
    """
    a_rank = max(1, len(simulation.schedule) // simulation.schedule.num_ranks)
    picture = picture_of(simulation, min(MAX_RANKS, MAX_CELLS // a_rank))
    return filled(
        PictureBlock,
        picture,
        name=picture.name if name is None else name,
        headline=headline(picture),
        shape=shape_text(picture),
        left_out=left_out(picture),
        memory_words=memory_text(picture),
        held_words=held_words(picture),
        ranks=_ranks(picture),
        cells=picture.cells.drop("rank").to_dict(as_series=False),
    )


def render_schedules_html(simulations: Sequence[Simulation]) -> str:
    """One self-contained page of one or more simulated schedules, on one scale of time, as text."""
    pictures = [picture_block(simulation) for simulation in simulations]
    names = ", ".join(picture.name for picture in pictures)
    headline = pictures[0].headline if len(pictures) == 1 else f"{names}, on one scale of time"
    return render_pictures(pictures, title=names, headline=headline)


def render_pictures(pictures: list[PictureBlock], *, title: str, headline: str) -> str:
    """The page of schedules, on one scale of time."""
    return render_page(
        "schedule.html",
        home=HOME,
        entry="schedule",
        styles=STYLES,
        blocks=[("weftrace-schedules", to_document(PageBlock(pictures=pictures)))],
        terms=PICTURE_TERMS,
        tables={"ranks": PictureRank},
        title=title,
        headline=headline,
        version=__version__,
    )


def _ranks(picture: Picture) -> list[PictureRank]:
    counts = dict(picture.cells.group_by("rank").len().iter_rows())
    ranks: list[Any] = []
    first = 0
    for row in picture.ranks.iter_rows(named=True):
        curve = picture.memory.filter(rank=row["rank"])
        end = first + counts.get(row["rank"], 0)
        share = idle_share(row)
        held = curve.select("time_ns", "held").to_dict(as_series=False)
        ranks.append({**row, "idle_share": share, "cells": [first, end], **held})
        first = end
    return ranks
