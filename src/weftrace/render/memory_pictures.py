"""Allocated and reserved memory over time as a scene and as a figure, whichever allocator told it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from weftrace.render import palette
from weftrace.render.figure_parts import label, layout, plotly_objects
from weftrace.render.scene import Curve, Key, Look, Row, Scene
from weftrace.units import size, unit_for

if TYPE_CHECKING:
    import plotly.graph_objects as go

_HEIGHT = 150.0
_LOOKS = {
    "allocated": Look(fill=palette.MEMORY, word="allocated"),
    "spare": Look(fill=palette.MEMORY, word="reserved, not allocated", opacity=0.3),
}


def memory_scene(name: str, curve: pl.DataFrame, *, clock: str = "time") -> Scene:
    """One row: what is allocated as a line, what is reserved beyond it as a band above. curve: of `CurveRow`s."""
    times = curve.get_column("time_ns").to_list()
    allocated = curve.get_column("allocated_bytes").to_list()
    reserved = curve.get_column("reserved_bytes").to_list()
    is_reserved = bool(reserved) and reserved[0] is not None
    most = max((*allocated, *(reserved if is_reserved else ())), default=1)
    curves = [
        Curve(look="held", times_ns=times, high=allocated, summary=[f"allocated {size(each)}" for each in allocated])
    ]
    keys = [Key(("allocated",), "allocated")]
    if is_reserved:
        curves.insert(0, Curve(look="band", times_ns=times, high=reserved, low=allocated))
        keys.append(Key(("spare",), "reserved, not allocated"))
    return Scene(
        name=name,
        title=memory_title(name, curve),
        clock=clock,
        start_ns=times[0] if times else 0,
        end_ns=max(times[-1], times[0] + 1) if times else 1,
        left=70.0,
        looks=_LOOKS,
        rows=(Row(label=size(most), height=_HEIGHT, gap=8.0, most=max(1, most), curves=tuple(curves)),),
        rects=(),
        keys=tuple(keys),
    )


def memory_figure(name: str, curve: pl.DataFrame, *, clock: str = "time") -> go.Figure:
    """The same as a plotly figure. Raises `WeftraceError` without plotly."""
    figure = plotly_objects().Figure()
    times = curve.get_column("time_ns")
    unit = unit_for(max((abs(time) for time in times), default=0))
    is_time = clock == "time"
    at = (times / unit.ns if is_time else times).to_list()
    for of, colour, fill in (("reserved", palette.IDLE, None), ("allocated", palette.MEMORY, "tozeroy")):
        amounts = curve.get_column(f"{of}_bytes")
        if amounts.null_count() < amounts.len():
            figure.add_scatter(
                name=of, x=at, y=amounts.to_list(), mode="lines", line={"shape": "hv", "width": 1.4, "color": colour},
                fill=fill, text=[size(each) for each in amounts], hovertemplate="%{text}<extra>" + of + "</extra>",
            )  # fmt: skip
    figure.update_layout(**layout(label(memory_title(name, curve)), height=360))
    figure.update_xaxes(title=f"{clock} ({unit.name})" if is_time else clock)
    figure.update_yaxes(title="bytes", rangemode="tozero", exponentformat="SI")
    return figure


def memory_title(name: str, curve: pl.DataFrame) -> str:
    """What was allocated and reserved at most."""
    allocated, reserved = (curve.get_column(f"{of}_bytes").max() for of in ("allocated", "reserved"))
    text = f"{name}: at most {size(int(allocated or 0))} allocated"  # type: ignore[arg-type]
    return text if reserved is None else f"{text}, {size(int(reserved))} reserved"  # type: ignore[arg-type]
