"""The charts of a job as plotly figures: all ranks over time, who waits for whom, who was late in which step.

Each is a function of the report document and shows nothing; they raise WeftraceError without plotly, and where the
document has nothing to draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from weftrace.errors import WeftraceError
from weftrace.render import palette
from weftrace.render.figure_parts import label, layout, plotly_objects
from weftrace.render.scene import Look, Rect, Row, Scene
from weftrace.render.scene_figure import scene_figure
from weftrace.report.document_types import LatenessDocument, RankDocument, ReportDocument
from weftrace.units import MS, duration

if TYPE_CHECKING:
    import plotly.graph_objects as go

_MOST_RANKS = 64  # of a timeline: more rows are thinner than their names
#: What a row shows of a rank: its colour, and which part of the row's height it takes.
_PARTS = {
    "computing": (palette.COMPUTE, 0.0, 0.5),
    "communicating": (palette.COMMUNICATION, 0.55, 1.0),
    "waiting for others": (palette.WAITING, 0.55, 1.0),
}
_SCALE = ((0, "#ffffff"), (1, palette.WAITING))

#: What `steps_figure` can show: who was late, or what the step was made of.
StepMeasure = Literal["caused", "suffered", "span", "idle", "exposed"]
_MEASURES: dict[StepMeasure, str] = {
    "caused": "lateness caused",
    "suffered": "waited for others",
    "span": "span",
    "idle": "idle",
    "exposed": "exposed communication",
}


def job_figure(document: ReportDocument) -> go.Figure:
    """The ranks of a job on one axis: above in a row what it computed, below what it communicated, of it waiting.

    A bar is as high as its stretch was dense. Of more than 64 ranks, the 64 that were most late; without lateness, the
    first ones.
    """
    ranks, names = _counted(document), _names(document)
    shown = sorted(_most_late_first(document)[:_MOST_RANKS])
    rects = []
    for row, at in enumerate(shown):
        begin, end = ranks[at]["shift_ns"], ranks[at]["shift_ns"] + ranks[at]["span_ns"]
        for part, (_, top, foot) in _PARTS.items():
            ran = [(begin + a, begin + b, busy) for a, b, busy in _stretches(ranks[at], part)]
            summary = f"{names[at]}: {part}"
            rects.append(Rect(row, begin, end, part, title=summary, top=top, foot=foot, ran=ran))
    title = f"{len(shown)} ranks on one axis" if len(shown) == len(ranks) else f"The {len(shown)} latest ranks"
    scene = Scene(
        name=title,
        title=title,
        start_ns=0,
        end_ns=max((rect.end_ns for rect in rects), default=0),
        looks={part: Look(fill=colour, word=part) for part, (colour, *_) in _PARTS.items()},
        rows=tuple(Row(label=names[at], height=14, gap=2) for at in shown),
        rects=rects,
    )
    return scene_figure(scene)


def lateness_figure(document: ReportDocument) -> go.Figure:
    """Who waited (rows) for whom (columns), in ms, as a heat map."""
    go = plotly_objects()
    lateness = _lateness(document)
    names = [label(rank["name"]) for rank in lateness["ranks"]]
    waited = [[0.0] * len(names) for _ in names]
    for waiter, last, waiting_ns, _ in lateness["pairs"]:
        waited[waiter][last] = waiting_ns / MS
    title = "Who waits for whom (ms)"
    if lateness["late"] is not None:
        late = lateness["ranks"][lateness["late"]]
        title += f": {label(late['name'])} caused {duration(late['origin_ns'])}"
    figure = go.Figure(_heat(go, waited, names, names, "%{y} waited %{z:.3f} ms for %{x}"))
    figure.update_layout(**layout(title, height=240 + 18 * len(names)))
    figure.update_xaxes(title="was last in", type="category", side="bottom")
    figure.update_yaxes(title="waited", type="category", autorange="reversed")
    return figure


def steps_figure(document: ReportDocument, of: StepMeasure = "caused") -> go.Figure:
    """Ranks (rows) by steps (columns), in ms, as a heat map: lateness that a rank caused in a step, or another measure.

    of: "caused", "suffered" (it waited for others), or of the step's window "span", "idle", "exposed".
    """
    go = plotly_objects()
    names = [label(name) for name in _names(document)]
    rows = _late_steps(_lateness(document), of) if of in ("caused", "suffered") else _own_steps(document, of)
    if not any(rows):
        raise WeftraceError("no steps are recorded: annotate them with the profiler's step() to see ranks by step")
    steps = sorted({step for row in rows for step in row})
    times = [[None if (ns := row.get(step)) is None else ns / MS for step in steps] for row in rows]
    figure = go.Figure(_heat(go, times, [str(step) for step in steps], names, "%{y}, step %{x}: %{z:.3f} ms"))
    figure.update_layout(**layout(f"Ranks by steps: {_MEASURES[of]} (ms)", height=240 + 18 * len(names)))
    figure.update_xaxes(title="step", type="category", side="bottom")
    figure.update_yaxes(type="category", autorange="reversed")
    return figure


def _late_steps(lateness: LatenessDocument, of: StepMeasure) -> list[dict[int, int]]:
    """Of each rank its lateness by step."""
    at = range(len(lateness["ranks"]))
    if of == "caused":
        return [{row["step"]: row["caused_ns"][n] for row in lateness["steps"]} for n in at]
    return [{row["step"]: row["suffered_ns"][n] for row in lateness["steps"]} for n in at]


def _own_steps(document: ReportDocument, of: StepMeasure) -> list[dict[int, int]]:
    key: Literal["span_ns", "idle_ns", "exposed_communication_ns"] = (
        "span_ns" if of == "span" else "idle_ns" if of == "idle" else "exposed_communication_ns"
    )
    return [{step["step"]: step[key] for step in rank["steps"]} for rank in _counted(document)]


def _heat(
    go: object, z: Sequence[Sequence[float | None]], x: Sequence[str], y: Sequence[str], hover: str
) -> go.Heatmap:
    return go.Heatmap(  # type: ignore[attr-defined] # the module, which is imported when a figure is made
        z=z, x=list(x), y=list(y), colorscale=_SCALE, zmin=0, xgap=1, ygap=1, colorbar={"title": "ms"},
        hovertemplate=hover + "<extra></extra>",
    )  # fmt: skip


def _stretches(rank: RankDocument, part: str) -> Sequence[Sequence[int]]:
    if part == "waiting for others":
        return rank["waits"]
    lane = "compute" if part == "computing" else "communication"
    return next((band["busy"] for band in rank["lanes"] if band["lane"] == lane), ())


def _lateness(document: ReportDocument) -> LatenessDocument:
    lateness = document["lateness"]
    if lateness is None:
        raise WeftraceError("no collective could be matched across ranks, so it is not known which rank was late")
    return lateness


def _counted(document: ReportDocument) -> list[RankDocument]:
    return [rank for rank in document["ranks"] if rank["apart"] is None]


def _names(document: ReportDocument) -> list[str]:
    """What the ranks that count are called."""
    if document["lateness"] is not None:
        return [rank["name"] for rank in document["lateness"]["ranks"]]
    return [rank["path"] if rank["rank"] is None else f"rank {rank['rank']}" for rank in _counted(document)]


def _most_late_first(document: ReportDocument) -> list[int]:
    """Positions among the ranks that count."""
    lateness = document["lateness"]
    if lateness is None:
        return list(range(len(_counted(document))))
    return sorted(range(len(lateness["ranks"])), key=lambda at: -lateness["ranks"][at]["origin_ns"])
