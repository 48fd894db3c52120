"""Memory over time as pictures: of a trace, or of the history of an allocator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weftrace.analysis.memory import MemoryUse
from weftrace.errors import OutputError
from weftrace.memory.of_traces import TraceMemory
from weftrace.memory.snapshot_of_memory import AllocatorHistory, MemorySnapshot
from weftrace.render.memory_pictures import memory_figure, memory_scene
from weftrace.render.scene import Scene
from weftrace.render.scene_svg import scene_svg

if TYPE_CHECKING:
    import plotly.graph_objects as go

_PLOT = 900.0


def snapshot_scenes(snapshot: MemorySnapshot) -> list[Scene]:
    """A scene per device with a history. Raises `OutputError` where none was recorded."""
    return [
        memory_scene(f"device {device}", history.curve, clock=_clock(history)) for device, history in _told(snapshot)
    ]


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
    """The device with the highest peak of its history. Raises `OutputError` where none was recorded."""
    told = _told(snapshot)
    device, history = max(told, key=lambda each: each[1].peak_bytes)
    return memory_figure(f"device {device}", history.curve, clock=_clock(history))


def trace_figure(memory: TraceMemory) -> go.Figure:
    """The first device: the CPU where there is no other."""
    return use_figure(memory.devices[0])


def use_figure(use: MemoryUse) -> go.Figure:
    """Allocated and reserved memory over time."""
    return memory_figure(use.device, use.curve)


def _told(snapshot: MemorySnapshot) -> list[tuple[int, AllocatorHistory]]:
    told = [(each.device, each.history) for each in snapshot.devices if each.history is not None]
    if not told:
        raise OutputError(
            f"{snapshot.source}: no history was recorded, so there is nothing to draw: call "
            "torch.cuda.memory._record_memory_history() before the run."
        )
    return told


def _clock(history: AllocatorHistory) -> str:
    return "time" if history.span_ns is not None else "events"
