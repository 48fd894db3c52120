"""Memory of a trace, and snapshots of an allocator, in a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.text import Text

from weftrace.files.values import to_document
from weftrace.memory.of_traces import TraceMemory
from weftrace.memory.snapshot_of_memory import DeviceMemory, MemorySnapshot, SegmentRow, StackRow
from weftrace.render.console_parts import opening, print_blocks, rows_table, section
from weftrace.render.memory_blocks import memory_blocks, peak_sentence
from weftrace.units import counted, duration, percent, size

_MAX_WIDTH = 140
_ROWS = 15


def print_trace_memory(memory: TraceMemory, console: Console) -> None:
    """The peak of each device, and who held it."""
    width = min(console.width, _MAX_WIDTH)
    uses = [to_document(each) for each in memory.devices]
    blocks: list[RenderableType] = [*opening("memory", [memory.source], peak_sentence(uses[0]))]
    for each in uses:
        blocks += list(memory_blocks(each, width))
    print_blocks(blocks, console, width)


def print_snapshot(snapshot: MemorySnapshot, console: Console) -> None:
    """What each device's allocator holds, and held at the peak of its history."""
    width = min(console.width, _MAX_WIDTH)
    blocks = [*opening("memory", [snapshot.source], _headline(snapshot))]
    for each in snapshot.devices:
        blocks += list(_device(each, width))
    print_blocks(blocks, console, width)


def _headline(snapshot: MemorySnapshot) -> str:
    if not snapshot.devices:
        return "The snapshot is empty: no device has segments or a history."
    most = max(snapshot.devices, key=lambda each: each.reserved_bytes)
    text = f"Device {most.device} has {size(most.active_bytes)} in use of {size(most.reserved_bytes)} reserved"
    if most.history is None:
        return f"{text}."
    top = most.history.held.row(0, named=True) if most.history.held.height else None
    by = f", {percent(top['share'])} of it by {top['stack'].split(' < ')[0]}" if top else ""
    return f"{text}; the peak was {size(most.history.peak_bytes)}{by}."


def _device(device: DeviceMemory, width: int) -> Iterator[RenderableType]:
    lines = [
        f"{size(device.reserved_bytes)} reserved = {size(device.active_bytes)} in use + {size(device.pending_bytes)} "
        f"waiting for another stream + {size(device.free_bytes)} free.",
        f"What is in use was asked for as {size(device.requested_bytes)}; the rest is rounding.",
    ]
    if device.free_bytes:
        lines.append(
            f"The largest free block is {size(device.largest_free_bytes)}: fragmentation "
            f"{percent(device.fragmentation_share)}. {size(device.stuck_bytes)} are free beside blocks in use, where "
            "empty_cache() does not reach."
        )
    if device.num_failed:
        lines.append(
            f"{counted(device.num_failed, 'allocation')} failed; the last asked for {size(device.failed_bytes)} while "
            f"the device had {size(device.device_free_bytes)} free."
        )
    segments = counted(device.num_segments, "segment")
    yield Group(
        section(f"Device {device.device}", f"{segments}, {counted(device.num_blocks, 'block')}"), *map(Text, lines)
    )
    yield Group(section("Segments"), rows_table(SegmentRow, device.segments.head(_ROWS).to_dicts(), width))
    if device.held.height:
        rows = device.held.head(_ROWS).to_dicts()
        yield Group(section("In use", _of(device.held.height)), rows_table(StackRow, rows, width))
    history = device.history
    if history is None:
        yield Text("No history was recorded: torch.cuda.memory._record_memory_history() before the run records it.")
        return
    when = "" if history.peak_ns is None else f" after {duration(history.peak_ns)} of {duration(history.span_ns)}"
    note = f"{size(history.peak_bytes)} as requested, {size(history.reserved_bytes)} reserved then{when}"
    rows = history.held.head(_ROWS).to_dicts()
    yield Group(section("At the peak of the history", note), rows_table(StackRow, rows, width))


def _of(number: int) -> str:
    return f"the first {_ROWS} of {number:,}" if number > _ROWS else ""
