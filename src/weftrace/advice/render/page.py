"""HTML of advice: a critical path, with what would be saved, and a what-if, before and after on one scale of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import polars as pl

from weftrace.advice.critical_paths import CriticalPath
from weftrace.advice.render.colours import CLASS_ROLES
from weftrace.advice.render.page_words import PATH_TERMS, WHAT_IF_TERMS
from weftrace.advice.render.picture import MAX_NAME, MAX_OPS, PathPicture, path_picture
from weftrace.advice.sensitivities import Curve, Sensitivity
from weftrace.advice.waterfalls import Waterfall
from weftrace.advice.whatifs import WhatIf
from weftrace.plan.inference.values import Inferred
from weftrace.render.page import render_page
from weftrace.version import __version__

#: The package that holds the pages' templates and static files.
HOME = "weftrace.advice.render"
STYLES = ("render/page.css", "render/charts.css", "render/path.css")

#: Rows of a table that a page holds at most, those of most time first.
MAX_SHARES = 400
#: Waits that it lists, the least sure first.
MAX_WAITS = 200


class ReplayBlock(TypedDict):
    """How far the replay is off, and what it keeps of the run."""

    span_ns: int
    replayed_ns: int
    error: float
    is_trustworthy: bool
    worst_phase: str | None
    worst_phase_ns: int
    late_starts: int
    unexplained_starts: int
    gap_ns: int
    launch_latency_ns: int
    wait_latency_ns: int


class ShareRow(TypedDict):
    """Time on the path of one name, and its share of the replayed span."""

    name: str
    time_ns: int
    share: float


class Shares(TypedDict):
    """The path's time, each list adding up to the span unless it was too long."""

    classes: list[ShareRow]
    phases: list[ShareRow]
    families: list[ShareRow]
    kernels: list[ShareRow]
    causes: list[ShareRow]
    ranks: list[ShareRow]


class WaitRow(TypedDict):
    """A wait on the path that is not certain. at_ns: when the op that waited started, from the first on a device."""

    name: str
    waited_for: str
    source: str
    votes_for: int | None
    votes_against: int | None
    confidence: float
    at_ns: int


class BarRow(TypedDict):
    """A bar of the waterfall. role: its colour."""

    name: str
    role: str
    time_ns: int
    share: float
    alone_ns: int | None


class GainRow(TypedDict):
    """What it saves to make one selection faster."""

    kind: str
    selector: str
    time_ns: int
    critical_ns: int
    saved_ns: int
    share: float


class GainBlock(TypedDict):
    """All that was made faster by the share `by`, one at a time."""

    by: float
    sentence: str
    rows: list[GainRow]


class CurveBlock(TypedDict):
    """The span over the speed of one selection. change: of the span, as a fraction. knee: position in factors."""

    selector: str
    sentence: str
    factors: list[float]
    changes: list[float]
    knee: int | None


class PathBlock(TypedDict):
    """A critical path as a page holds it. waits: those on it that are not certain, the least sure first."""

    sentence: str
    replay: ReplayBlock
    picture: PathPicture
    bars: list[BarRow]
    by: Shares
    waits: list[WaitRow]
    num_waits: int
    sensitivity: GainBlock | None
    curves: list[CurveBlock]
    notes: list[str]


class Difference(TypedDict):
    """A class on the path before and after."""

    name: str
    role: str
    before_ns: int
    after_ns: int


class WhatIfBlock(TypedDict):
    """A what-if as its page holds it."""

    sentence: str
    changes: list[str]
    replay: ReplayBlock
    after_ns: int
    bottleneck: str
    before: PathPicture
    after: PathPicture
    differences: list[Difference]
    limits: list[str]
    notes: list[str]


def render_path_html(
    inferred: Inferred,
    path: CriticalPath,
    *,
    waterfall: Waterfall | None = None,
    sensitivity: Sensitivity | None = None,
    curves: Sequence[Curve] = (),
) -> str:
    """One self-contained page of a critical path, as text. path and what follows: of `inferred`."""
    block = path_block(inferred, path, waterfall=waterfall, sensitivity=sensitivity, curves=curves)
    return render_page(
        "path.html",
        home=HOME,
        entry="path",
        styles=STYLES,
        blocks=[("weftrace-path", block)],
        terms=PATH_TERMS,
        title=f"Critical path of {inferred.plan.name}",
        headline=path.sentence,
        version=__version__,
    )


def render_what_if_html(inferred: Inferred, answer: WhatIf) -> str:
    """One self-contained page of a what-if, as text. answer: of `inferred`."""
    return render_page(
        "what_if.html",
        home=HOME,
        entry="what_if",
        styles=STYLES,
        blocks=[("weftrace-what-if", what_if_block(inferred, answer))],
        terms=WHAT_IF_TERMS,
        title=f"What if, of {inferred.plan.name}",
        headline=answer.sentence,
        version=__version__,
    )


def path_block(
    inferred: Inferred,
    path: CriticalPath,
    *,
    waterfall: Waterfall | None = None,
    sensitivity: Sensitivity | None = None,
    curves: Sequence[Curve] = (),
    max_ops: int = MAX_OPS,
) -> PathBlock:
    """What a page that shows a critical path holds of it."""
    unsure = path.path.filter(pl.col("confidence") < 1).sort("confidence", maintain_order=True)
    return {
        "sentence": path.sentence,
        "replay": replay_block(inferred),
        "picture": path_picture(path, max_ops=max_ops),
        "bars": [] if waterfall is None else _bars(waterfall),
        "by": {
            "classes": _shares(path.by_class),
            "phases": _shares(path.by_phase),
            "families": _shares(path.by_family),
            "kernels": _shares(path.by_kernel),
            "causes": _shares(path.by_cause),
            "ranks": _shares(path.by_rank),
        },
        "waits": _waits(unsure.head(MAX_WAITS), path),
        "num_waits": unsure.height,
        "sensitivity": None if sensitivity is None else _gains(sensitivity),
        "curves": [_curve(each) for each in curves],
        "notes": list(inferred.notes),
    }


def what_if_block(inferred: Inferred, answer: WhatIf) -> WhatIfBlock:
    """What the page of a what-if holds."""
    before, after = (dict(path.by_class.select("name", "time_ns").rows()) for path in (answer.before, answer.after))
    return {
        "sentence": answer.sentence,
        "changes": [str(change) for change in answer.changes],
        "replay": replay_block(inferred),
        "after_ns": answer.after_ns,
        "bottleneck": answer.bottleneck,
        "before": path_picture(answer.before, max_ops=MAX_OPS // 2),
        "after": path_picture(answer.after, max_ops=MAX_OPS // 2),
        "differences": [
            {"name": name, "role": CLASS_ROLES[name], "before_ns": before.get(name, 0), "after_ns": after.get(name, 0)}
            for name in CLASS_ROLES
            if name in before or name in after
        ],
        "limits": list(answer.limits),
        "notes": list(answer.notes),
    }


def replay_block(inferred: Inferred) -> ReplayBlock:
    """The replay beside the measurement, and what it keeps."""
    replay, kept = inferred.replay, inferred.kept
    return {
        "span_ns": replay.span_ns,
        "replayed_ns": replay.replayed_ns,
        "error": replay.error,
        "is_trustworthy": replay.is_trustworthy,
        "worst_phase": replay.worst_phase,
        "worst_phase_ns": replay.worst_phase_ns,
        "late_starts": replay.late_starts,
        "unexplained_starts": replay.unexplained_starts,
        "gap_ns": kept.gap_ns,
        "launch_latency_ns": kept.launch_latency_ns,
        "wait_latency_ns": kept.wait_latency_ns,
    }


def _shares(frame: pl.DataFrame) -> list[ShareRow]:
    rows = frame.head(MAX_SHARES).with_columns(pl.col("name").str.slice(0, MAX_NAME))
    return rows.to_dicts()  # type: ignore[return-value]


def _waits(unsure: pl.DataFrame, path: CriticalPath) -> list[WaitRow]:
    names = path.times.plan.ops.get_column("name").cast(pl.String).str.slice(0, MAX_NAME)
    begin = int(path.parts.item(0, "from_ns"))
    rows = unsure.select(
        pl.col("name").cast(pl.String).str.slice(0, MAX_NAME), pl.col("source").cast(pl.String), "votes_for",
        "votes_against", "confidence", waited_for=names.gather(unsure.get_column("cause")),
        at_ns=pl.col("start_ns") - begin,
    )  # fmt: skip
    return rows.to_dicts()  # type: ignore[return-value]


def _bars(found: Waterfall) -> list[BarRow]:
    return [
        {"name": name, "role": CLASS_ROLES.get(name, "error"), "time_ns": time_ns, "share": share, "alone_ns": alone_ns}
        for name, time_ns, share, alone_ns in found.bars.select("name", "time_ns", "share", "alone_ns").rows()
    ]


def _gains(found: Sensitivity) -> GainBlock:
    rows = found.table.with_columns(pl.col("kind").cast(pl.String), pl.col("selector").str.slice(0, MAX_NAME))
    columns = ("kind", "selector", "time_ns", "critical_ns", "saved_ns", "share")
    return {"by": found.by, "sentence": found.sentence, "rows": rows.select(columns).to_dicts()}  # type: ignore[typeddict-item]


def _curve(found: Curve) -> CurveBlock:
    factors = found.points.get_column("factor").to_list()
    knee = getattr(found, "knee", None)
    return {
        "selector": found.selector,
        "sentence": found.sentence,
        "factors": factors,
        "changes": found.points.get_column("change").to_list(),
        "knee": factors.index(knee) if knee in factors else None,
    }
