"""What the plotly figures share: plotly, imported when a figure is made, labels of untrusted text, one layout."""

from __future__ import annotations

import html
from types import ModuleType
from typing import Any

from weftrace.errors import WeftraceError
from weftrace.render.console_text import clean


def plotly_objects() -> ModuleType:
    """`plotly.graph_objects`. Raises WeftraceError, with the remedy, where plotly is not installed."""
    try:
        import plotly.graph_objects as go
    except ImportError as error:
        raise WeftraceError("figures need plotly, which is not installed: pip install weftrace[notebook]") from error
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
