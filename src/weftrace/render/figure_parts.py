"""What the plotly figures share: plotly, imported when a figure is made, labels of untrusted text, one layout."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from weftrace.errors import WeftraceError
from weftrace.installing import install_command
from weftrace.render import palette
from weftrace.render.console_text import clean
from weftrace.units import si


def plotly_objects() -> ModuleType:
    """`plotly.graph_objects`. Raises WeftraceError, with the remedy, where plotly is not installed."""
    try:
        import plotly.graph_objects as go
    except ImportError as error:
        raise WeftraceError(f"figures need plotly, which is not installed: {install_command('notebook')}") from error
    module: ModuleType = go
    return module


def label(text: object) -> str:
    """Untrusted text for plotly, which reads some HTML in labels."""
    return html.escape(clean(text))


def layout(title: str, *, height: int) -> dict[str, Any]:
    """Title, legend and margins, alike in all figures. height: pixels."""
    legend = {"orientation": "h", "traceorder": "normal", "x": 1.0, "xanchor": "right", "y": 1.0, "yanchor": "bottom"}
    return {
        "title": {"text": title},
        "height": height,
        "template": "plotly_white",
        "legend": legend,
        "margin": {"l": 20, "r": 20, "t": 90, "b": 50},
    }


def add_roofs(figure: Any, peaks: Mapping[str, float], bytes_per_s: float, intensities: Sequence[float]) -> None:
    """Draw the roofs of a device over a scatter of FLOP/s over FLOP/byte, and name its axes. peaks: dtype -> FLOP/s.
    intensities: of the points that they must reach over."""
    low, high = min(intensities, default=0.1) / 2, max(intensities, default=100.0) * 2
    for dtype, peak in peaks.items():
        ridge = peak / bytes_per_s
        corners = sorted({low, ridge, max(high, 2 * ridge)})
        figure.add_scatter(
            name=f"{dtype}: {si(peak, 'FLOP/s')}",
            x=corners,
            y=[min(peak, value * bytes_per_s) for value in corners],
            mode="lines",
            line={"color": palette.INK, "width": 1.5},
            hoverinfo="name",
        )
    figure.update_xaxes(type="log", title="FLOP per byte moved")
    figure.update_yaxes(type="log", title="FLOP per second")
