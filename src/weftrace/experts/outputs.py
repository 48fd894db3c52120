"""What can be done with a placement and a replay: see `weftrace.outputs`."""

from __future__ import annotations

from typing import NoReturn

from weftrace.errors import PlacementError
from weftrace.experts.build import slot_table
from weftrace.experts.document import SCHEMA, PlacementReport
from weftrace.experts.placement import Placement
from weftrace.experts.render import figures
from weftrace.experts.render.page import render_placement_html, render_replay_html
from weftrace.experts.render.terminal import print_placement, print_placement_alone, print_replay
from weftrace.experts.replays.document import ReplayReport, replay_report
from weftrace.experts.replays.replay import Replay, ReplayRow
from weftrace.files.columns import frame_of
from weftrace.outputs import Output, adapter_for, writers

PLACEMENT = Output(
    value=PlacementReport,
    schema=SCHEMA,
    title="A placement of experts, what it does to loads, and how good that is",
    show=print_placement,
    page=render_placement_html,
    table=slot_table,
    figures={
        "gpu_load": figures.figure_gpu_load,
        "balancedness": figures.figure_balancedness,
        "moves": figures.figure_moves,
    },
)

REPLAY = Output(
    value=ReplayReport,
    schema="weftrace.replay/1",
    title="What load estimators, windows, intervals and solvers would have reached on recorded loads",
    show=print_replay,
    page=render_replay_html,
    table=lambda report: frame_of(ReplayRow, report.rows),
    figures={"replay": figures.figure_replay},
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
    save=dict.fromkeys(writers(PLACEMENT), _needs_loads),
    figures=dict.fromkeys(PLACEMENT.figures, _needs_loads),
)

OUTPUTS = (PLACEMENT, REPLAY, _PLACEMENT_ALONE, _REPLAY_ITSELF)
