"""S of a job in a terminal, as Markdown, and as figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from weftrace.analysis.job_slowdown import JobSlowdown
from weftrace.render.console_parts import notes_block, opening, print_blocks
from weftrace.render.markdown import markdown_text
from weftrace.render.slowdown_parts import slowdown_blocks, slowdown_markdown
from weftrace.units import counted
from weftrace.version import __version__

if TYPE_CHECKING:
    import plotly.graph_objects as go

_MAX_WIDTH = 140
_TOP = 8
_MOST_BARS = 40


def print_stragglers(found: JobSlowdown, console: Console, top: int = _TOP) -> None:
    """Print a `weftrace.slowdown/1` document. top: rows of each table, at most."""
    width = min(console.width, _MAX_WIDTH)
    facts = (counted(found.num_ranks, "rank"), counted(found.num_steps, "step"))
    blocks = [*opening("stragglers", facts, found.headline), *slowdown_blocks(found, width, top)]
    print_blocks([*blocks, *notes_block(found.notes)], console, width)


def stragglers_markdown(found: JobSlowdown) -> str:
    """The headline, S, its causes and its parts."""
    foot = f"*weftrace {__version__}; {counted(found.num_ranks, 'rank')}, {counted(found.num_steps, 'step')}*"
    return f"**{markdown_text(found.headline)}**\n\n{slowdown_markdown(found)}\n\n{foot}\n"


def ranks_figure(found: JobSlowdown) -> go.Figure:
    """How much each rank alone slows the job down, S_w - 1, the most first."""
    import plotly.graph_objects as go

    rows = found.workers.sort("slowdown", descending=True).head(_MOST_BARS)
    share = [max(0.0, value - 1) for value in rows.get_column("slowdown")]
    figure = go.Figure(go.Bar(x=rows.get_column("name"), y=share))
    return figure.update_layout(title=found.headline, yaxis={"title": "S_w - 1", "tickformat": ".1%"})


def origin_figure(found: JobSlowdown) -> go.Figure:
    """By how much each rank alone makes each step longer than at its peers' pace, ms, ranks down and steps across."""
    import plotly.graph_objects as go

    steps = [str(step) for step in found.steps.get_column("step")]
    values = [[ns / 1e6 for ns in row] for row in found.origin_ns]
    heat = go.Heatmap(z=values, x=steps, y=found.workers.get_column("name"), colorbar={"title": "ms"})
    return go.Figure(heat).update_layout(title=found.headline, xaxis={"title": "step", "type": "category"})
