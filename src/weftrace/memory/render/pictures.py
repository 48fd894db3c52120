"""Memory over time as pictures: of a trace, or of the history of an allocator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from weftrace.analysis.memory import MemoryUse
from weftrace.analysis.memory.curves import CurveRow
from weftrace.errors import OutputError
from weftrace.files.columns import frame_of
from weftrace.memory.of_traces import TraceMemory
from weftrace.memory.snapshot_of_memory import DeviceMemory, MemorySnapshot
from weftrace.render.memory_pictures import memory_figure, memory_scene
from weftrace.render.scene import Scene
from weftrace.render.scene_svg import scene_svg

if TYPE_CHECKING:
    import plotly.graph_objects as go

_PLOT = 900.0


def snapshot_scenes(snapshot: MemorySnapshot) -> list[Scene]:
    """A scene per device."""
    return [memory_scene(f"device {each.device}", curve, clock=clock) for each, curve, clock in _told(snapshot)]


def trace_scenes(memory: TraceMemory) -> list[Scene]:
    """A scene per device."""
    return [memory_scene(each.device, each.curve) for each in memory.devices]


def snapshot_svg(snapshot: MemorySnapshot) -> str:
    """One SVG of all devices."""
    return scene_svg(snapshot_scenes(snapshot), _PLOT)


def trace_svg(memory: TraceMemory) -> str:
    """One SVG of all devices."""
    return scene_svg(trace_scenes(memory), _PLOT)


def snapshot_figure(snapshot: MemorySnapshot) -> go.Figure:
    """The device with most memory reserved. Raises `OutputError` where there is none."""
    if not snapshot.devices:
        raise OutputError(f"{snapshot.source}: holds no device's memory: there is nothing to draw.")
    device, curve, clock = max(_told(snapshot), key=lambda told: told[0].reserved_bytes)
    return memory_figure(f"device {device.device}", curve, clock=clock)


def trace_figure(memory: TraceMemory) -> go.Figure:
    """The first device: the CPU where there is no other."""
    return use_figure(memory.devices[0])


def use_figure(use: MemoryUse) -> go.Figure:
    """Allocated and reserved memory over time."""
    return memory_figure(use.device, use.curve)


def _told(snapshot: MemorySnapshot) -> list[tuple[DeviceMemory, pl.DataFrame, str]]:
    """Of each device its history and what tells its time; without one, what there was at the snapshot."""
    now = [
        frame_of(CurveRow, [{"time_ns": 0, "allocated_bytes": d.active_bytes, "reserved_bytes": d.reserved_bytes}])
        for d in snapshot.devices
    ]
    return [
        (each, alone, "events")
        if each.history is None
        else (each, each.history.curve, "events" if each.history.span_ns is None else "time")
        for each, alone in zip(snapshot.devices, now, strict=True)
    ]
